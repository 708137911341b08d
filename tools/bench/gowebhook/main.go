// The two rules as one would write them with controller-runtime, for pods alone: the Go webhook
// that genguard is measured against.
//
//	gowebhook PORT FOLDER
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/go-logr/logr"
)

type mutator struct{ decoder admission.Decoder }

// Handle answers one review, as the handlers of controller-runtime's book do: decode into the
// type, change it, let the library find the patch.
func (m *mutator) Handle(_ context.Context, request admission.Request) admission.Response {
	isWrite := request.Operation == admissionv1.Create || request.Operation == admissionv1.Update
	if !isWrite || request.Kind.Kind != "Pod" {
		return admission.Allowed("")
	}
	pod, old := &corev1.Pod{}, &corev1.Pod{}
	if err := m.decoder.Decode(request, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if request.Operation == admissionv1.Create {
		pod.Generation = 1
	} else {
		if err := m.decoder.DecodeRaw(request.OldObject, old); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		pod.Generation = old.Generation
		if request.SubResource == "" && !equality.Semantic.DeepEqual(pod.Spec, old.Spec) {
			pod.Generation++
		}
	}
	if request.SubResource == "status" {
		preserve(&pod.Status, &old.Status)
	}
	changed, err := json.Marshal(pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, changed)
}

// preserve puts back every observedGeneration that is zero and was set.
func preserve(status, old *corev1.PodStatus) {
	if status.ObservedGeneration == 0 {
		status.ObservedGeneration = old.ObservedGeneration
	}
	before := map[corev1.PodConditionType]int64{}
	for _, condition := range old.Conditions {
		before[condition.Type] = condition.ObservedGeneration
	}
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		if condition.ObservedGeneration == 0 {
			condition.ObservedGeneration = before[condition.Type]
		}
	}
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gowebhook PORT FOLDER")
		os.Exit(2)
	}
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	log.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	_ = corev1.AddToScheme(scheme)
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: os.Args[2]})
	handler := &mutator{decoder: admission.NewDecoder(scheme)}
	server.Register("/mutate", &webhook.Admission{Handler: handler})
	if err := server.Start(signals.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
