#!/bin/sh
call="${0##*/} $*"
echo "$call" >>"$HOME/calls"
case "$call" in
"kind get clusters") cat "$HOME/cluster" ;;
"kind create "*) echo genguard >"$HOME/cluster" ;;
"kind delete "*) : >"$HOME/cluster" ;;
"kind get kubeconfig "*) echo a secret ;;
"docker build --iidfile "*)
  echo sha256:0123456789abcdef >"$3"
  echo why
  exit "$(cat "$HOME/built")"
  ;;
"docker image ls "*) printf '0123456789ab\n0123456789ab\n' ;;
"docker run "*" install "*) exec stat --format "kubeconfig: %a" "$(echo "$8" | cut -d: -f1)" ;;
"docker run "*" doctor "*)
  cat "$HOME/doctor"
  test -s "$HOME/doctor" && ! grep -qv "^ok " "$HOME/doctor"
  ;;
esac
