#!/usr/bin/env bash
# genguard on kind. `up` makes a cluster, builds the image, loads it and installs genguard with the
# image's own `genguard install`; what is there already is used. `down` takes all of it away.
#
#   manifests/kind/kind.sh up [flags of `genguard install`, such as --audit-only]
#   manifests/kind/kind.sh down
#
# Needs Docker and kind, and nothing else on this machine. Where PyPI is not reached directly, set
# PIP_INDEX_URL and CA_CERTIFICATES as the Dockerfile says.
set -euo pipefail

readonly NAME=genguard # as in cluster.yaml
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(dirname "$(dirname "$HERE")")
SCRATCH=$(mktemp -d)
readonly HERE ROOT SCRATCH
trap 'rm -rf "$SCRATCH"' EXIT

say() { printf '== %s\n' "$*" >&2; }

fail() {
  printf 'kind.sh: %s\n' "$*" >&2
  exit 1
}

tools() {
  command -v docker >/dev/null || fail "docker is not there: https://docs.docker.com/get-docker/"
  command -v kind >/dev/null || fail "kind is not there: https://kind.sigs.k8s.io/docs/user/quick-start/"
  docker info >/dev/null 2>&1 || fail "docker does not answer: start it, and look at 'docker info'"
}

exists() { kind get clusters 2>/dev/null | grep -qx "$NAME"; }

# In a container beside the nodes, as this user, who alone may read the kubeconfig.
genguard() {
  docker run --rm --network kind --user "$(id -u):$(id -g)" \
    --volume "$SCRATCH/kubeconfig:/kubeconfig:ro" "$IMAGE" "$@" --kubeconfig /kubeconfig
}

up() {
  if exists; then
    say "1/4 the cluster $NAME exists"
  else
    say "1/4 create a cluster of three nodes"
    kind create cluster --config "$HERE/cluster.yaml" --wait 3m
  fi

  say "2/4 build and load the image, a minute or more"
  # Build arguments without a value are taken from the environment, and left out where it has none.
  if ! docker build --iidfile "$SCRATCH/image" --build-arg PIP_INDEX_URL --build-arg CA_CERTIFICATES \
    "$ROOT" >"$SCRATCH/build.log" 2>&1; then
    cat "$SCRATCH/build.log" >&2
    fail "docker build failed: its output is above"
  fi
  # Named by what is in it: another image is another name, and so the pods are replaced.
  IMAGE="$NAME:kind-$(cut -d: -f2 "$SCRATCH/image" | cut -c1-12)"
  docker tag "$(cat "$SCRATCH/image")" "$IMAGE"
  kind load docker-image "$IMAGE" --name "$NAME"

  say "3/4 genguard install"
  (umask 077 && kind get kubeconfig --internal --name "$NAME" >"$SCRATCH/kubeconfig")
  genguard install --yes --image "$IMAGE" "$@"

  say "4/4 genguard doctor"
  if ! genguard doctor | tee "$SCRATCH/doctor"; then
    say "genguard is installed, but doctor is not content:"
    grep -E '^(warn|fail) ' "$SCRATCH/doctor" >&2
    # A warning may be a finding that was open before: what was to be done is done.
    ! grep -q '^fail ' "$SCRATCH/doctor" || exit 1
  fi
  say "try it: manifests/kind/README.md"
}

down() {
  if exists; then
    kind delete cluster --name "$NAME"
  fi
  # One image may have several names, and there may be none.
  docker image ls --quiet --filter "reference=$NAME:kind-*" | sort -u | while read -r image; do
    docker image rm --force "$image"
  done
}

case ${1-} in
  up)
    tools
    shift
    up "$@"
    ;;
  down)
    tools
    down
    ;;
  *)
    sed -n '2,/^[^#]/s/^#[ ]\{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
