// gadgets KIND [restless] is an operator as controller-runtime's users write it: it reports what it
// has seen of objects of a kind of example.org/v1. A restless one also notes when, and so is called
// again by what it has written itself.
package main

import (
	"context"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func main() {
	ctrl.SetLogger(zap.New())
	isRestless := len(os.Args) > 2 && os.Args[2] == "restless"
	blank := &unstructured.Unstructured{}
	blank.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: os.Args[1]})
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	must(err)
	kube := manager.GetClient()
	must(ctrl.NewControllerManagedBy(manager).Named("gadgets").For(blank).Complete(reconcile.Func(
		func(ctx context.Context, asked reconcile.Request) (reconcile.Result, error) {
			found := blank.DeepCopy()
			if err := kube.Get(ctx, asked.NamespacedName, found); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			seen, _, _ := unstructured.NestedInt64(found.Object, "status", "observedGeneration")
			if seen == found.GetGeneration() && !isRestless {
				return reconcile.Result{}, nil
			}
			status := map[string]any{"observedGeneration": found.GetGeneration()}
			if isRestless {
				status["lastReconciled"] = time.Now().UTC().Format(time.RFC3339Nano)
			}
			found.Object["status"] = status
			return reconcile.Result{}, kube.Status().Update(ctx, found)
		})))
	must(manager.Start(ctrl.SetupSignalHandler()))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
