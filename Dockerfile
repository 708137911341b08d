# An image of two stages: the first installs, the second holds the result and nothing to build with.
#
# The tag is exact. To pin the bytes as well, pass the digest, which
# `docker buildx imagetools inspect python:3.11.14-slim-bookworm` prints:
#   docker build --build-arg PYTHON_IMAGE=python:3.11.14-slim-bookworm@sha256:... -t genguard:local .
# Where PyPI is not reached directly, pass the address of an index that has its packages, without a
# password, and in PEM what its certificate is signed with, if this machine trusts it and PyPI's
# clients do not. Hashes are checked all the same. A proxy needs nothing here: docker passes
# HTTPS_PROXY to a build.
#   docker build --build-arg PIP_INDEX_URL=URL --build-arg CA_CERTIFICATES="$(cat FILE)" ...
ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ARG PIP_INDEX_URL
ARG CA_CERTIFICATES
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# No pip in the environment that is shipped: what runs there cannot install anything.
RUN python -m venv --without-pip /opt/genguard
RUN [ -z "$CA_CERTIFICATES" ] || { printf '%s\n' "$CA_CERTIFICATES" > /src/ca.pem \
 && pip config --global set global.cert /src/ca.pem; }

# Every file is checked against its hash in a lock file, and none is built from source. The one
# tool that builds genguard's own wheel comes from the developers' lock, by its own lines there.
COPY requirements.lock requirements-dev.lock ./
RUN sed -n '/^setuptools==/,/[^\\]$/p' requirements-dev.lock > requirements-build.lock \
 && pip install --no-deps --require-hashes --only-binary :all: -r requirements-build.lock \
 && pip --python /opt/genguard/bin/python install --no-compile \
      --no-deps --require-hashes --only-binary :all: -r requirements.lock

# Left out: what genguard never imports of its dependencies, where that is megabytes. It speaks JSON
# by path, so it needs no model and no call of the two Kubernetes clients; it uses three extensions of
# CEL; and zstandard has a second binding for interpreters that are not CPython.
RUN cd /opt/genguard/lib/python3*/site-packages \
 && rm \
      kubernetes/client/api/*_api.py \
      kubernetes/client/models/[a-z]*.py \
      kubernetes/aio/client/api/*_api.py \
      kubernetes/aio/client/models/[a-z]*.py \
      cel_expr_python/ext/ext_bindings.* \
      cel_expr_python/ext/ext_math.* \
      cel_expr_python/ext/ext_proto.* \
      websocket/tests/*.py \
      zstandard/_cffi.* \
      zstandard/backend_cffi.py
# So are symbols and debug sections of compiled modules: 45 MB, of which nothing is ever loaded.
COPY tools/symbols.py ./
RUN python symbols.py /opt/genguard

COPY pyproject.toml README.md LICENSE ./
COPY certs certs
COPY manifests manifests
COPY webhook webhook
COPY genguard genguard
RUN pip wheel --no-deps --no-index --no-build-isolation --wheel-dir /wheels . \
 && pip --python /opt/genguard/bin/python install --no-deps --no-index /wheels/*.whl
# The root file system is read-only when this runs, so bytecode is written now.
RUN /opt/genguard/bin/python -m compileall -q /opt/genguard/lib
# What is left is enough: the command starts, and so do the server and the process for CEL.
RUN /opt/genguard/bin/genguard version \
 && /opt/genguard/bin/python -c "import uvloop, webhook.cel.programs, webhook.serve.connected"

FROM ${PYTHON_IMAGE}
# Which source and which commit it was made of, and when: a release passes them.
ARG PYTHON_IMAGE
ARG SOURCE=
ARG REVISION=
ARG CREATED=
LABEL org.opencontainers.image.title="genguard" \
      org.opencontainers.image.description="Find who overwrites status or undoes your changes" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="The genguard authors" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.base.name="${PYTHON_IMAGE}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.url="${SOURCE}" \
      org.opencontainers.image.documentation="${SOURCE}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
# The base image's own pip goes too, with the copy from which Python would install it again.
RUN rm -rf $(python -c 'import ensurepip, pip; print(*ensurepip.__path__, f"{pip.__path__[0]}*")') \
      /usr/local/bin/pip* /usr/bin/pip*
# Other containers and published ports reach a server that listens on every address of its own
# container; flags and --config still win. Findings are shown to loopback connections alone.
# The user has no home of its own, and a certificate made by `docker run` needs a place.
ENV GENGUARD_BIND_ADDRESS=0.0.0.0 \
    GENGUARD_OPS_ADDRESS=0.0.0.0 \
    HOME=/tmp \
    PATH=/opt/genguard/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=build /opt/genguard /opt/genguard
# A number: the kubelet cannot tell that a name is not root. It owns no file in the image.
USER 65532:65532
# The one folder that is always writable: a volume in Kubernetes, plain in `docker run`.
WORKDIR /tmp
EXPOSE 8443 8080
# Without a shell in between, so that SIGTERM reaches the server.
ENTRYPOINT ["/opt/genguard/bin/genguard"]
CMD ["serve"]
