# An image of two stages: the first installs, the second holds the result and nothing to build with.
#
# The tag is exact. To pin the bytes as well, pass the digest, which
# `docker buildx imagetools inspect python:3.11.14-slim-bookworm` prints:
#   docker build --build-arg PYTHON_IMAGE=python:3.11.14-slim-bookworm@sha256:... -t genguard:0.1.0 .
ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# No pip in the environment that is shipped: what runs there cannot install anything.
RUN python -m venv --without-pip /opt/genguard

# Every file is checked against its hash in a lock file, and none is built from source. The one
# tool that builds genguard's own wheel comes from the developers' lock, by its own lines there.
COPY requirements.lock requirements-dev.lock ./
RUN sed -n '/^setuptools==/,/[^\\]$/p' requirements-dev.lock > requirements-build.lock \
 && pip install --no-deps --require-hashes --only-binary :all: -r requirements-build.lock \
 && pip --python /opt/genguard/bin/python install \
      --no-deps --require-hashes --only-binary :all: -r requirements.lock

COPY pyproject.toml README.md LICENSE ./
COPY certs certs
COPY manifests manifests
COPY webhook webhook
RUN pip wheel --no-deps --no-index --no-build-isolation --wheel-dir /wheels . \
 && pip --python /opt/genguard/bin/python install --no-deps --no-index /wheels/*.whl

FROM ${PYTHON_IMAGE}
# Which source and which commit it was made of, and when: a release passes them.
ARG PYTHON_IMAGE
ARG SOURCE=
ARG REVISION=
ARG CREATED=
LABEL org.opencontainers.image.title="genguard" \
      org.opencontainers.image.description="Keeps generation and observedGeneration honest" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.base.name="${PYTHON_IMAGE}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
# Bytecode was written while installing; the root file system is read-only when this runs.
# The user has no home of its own, and a certificate made by `docker run` needs a place.
ENV HOME=/tmp \
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
