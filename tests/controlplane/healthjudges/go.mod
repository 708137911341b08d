// The judges of custom resources that users have, pinned: Argo CD's health checks in Lua, with the
// objects that it tests them on, and the evaluator of Flux' healthCheckExprs. A module of its own,
// for they need other versions than the binaries of ../go.mod.
module genguard.io/tests/controlplane/healthjudges

go 1.26.3

require (
	github.com/argoproj/argo-cd/v3 v3.5.0
	github.com/fluxcd/pkg/apis/kustomize v1.19.0
	github.com/fluxcd/pkg/runtime v0.110.0
	github.com/yuin/gopher-lua v1.1.2
	k8s.io/apimachinery v0.36.3
	sigs.k8s.io/yaml v1.6.0
)
