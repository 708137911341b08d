// What kube-apiserver applies the patches of webhooks with, in the version of ../go.mod.
module genguard.io/tests/controlplane/jsonpatches

go 1.26.0

require gopkg.in/evanphx/json-patch.v4 v4.13.0
