// gotypes prints the Go types that Argo CD and kubectl convert an object into before they evaluate it.
//
// A wrong type anywhere in an object makes that conversion fail (apimachinery
// pkg/runtime/converter.go), and with it the whole evaluation, so the views of `genguard status`
// have to know every field. genguard/status/views/go_types.json is this program's output:
//
//	go run ./gotypes > ../../genguard/status/views/go_types.json
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
)

// The kinds that one of the two views converts.
var roots = []any{
	appsv1.Deployment{}, appsv1.ReplicaSet{}, appsv1.StatefulSet{}, appsv1.DaemonSet{},
	autoscalingv1.HorizontalPodAutoscaler{}, autoscalingv2.HorizontalPodAutoscaler{},
	batchv1.Job{}, corev1.Pod{}, corev1.PersistentVolumeClaim{}, corev1.Service{},
	apiregistrationv1.APIService{}, apiregistrationv1beta1.APIService{},
}

// Types that read JSON in their own way.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.FieldsV1]():    "any",
	reflect.TypeFor[metav1.Time]():        "time",
	reflect.TypeFor[resource.Quantity]():  "quantity",
	reflect.TypeFor[intstr.IntOrString](): "intOrString",
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// A field's code: a scalar ("string", "bool", "int32", "int64", "bytes"), one of the special
// types, a struct's name, or one of these in a list "[]" or a map "{}". A pointer has the code of
// what it points to.
type types map[string]map[string]string

func (t types) code(of reflect.Type) string {
	if code, ok := special[of]; ok {
		return code
	}
	if reflect.PointerTo(of).Implements(unmarshaler) {
		fail("%v reads JSON in its own way: give it a code", of)
	}
	switch of.Kind() {
	case reflect.Pointer:
		return t.code(of.Elem())
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + t.code(of.Elem())
	case reflect.Map:
		return "{}" + t.code(of.Elem())
	case reflect.Struct:
		return t.add(of)
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64:
		return of.Kind().String()
	}
	fail("%v has no code", of)
	return ""
}

func (t types) add(of reflect.Type) string {
	parts := strings.Split(of.PkgPath(), "/")
	name := strings.Join(parts[len(parts)-2:], "/") + "." + of.Name()
	if _, ok := t[name]; !ok {
		t[name] = map[string]string{}
		t.collect(of, t[name])
	}
	return name
}

func (t types) collect(of reflect.Type, into map[string]string) {
	for i := range of.NumField() {
		field := of.Field(i)
		key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if key == "" {
			t.collect(field.Type, into) // inlined
		} else {
			into[key] = t.code(field.Type)
		}
	}
}

func main() {
	found := types{}
	for _, root := range roots {
		found.add(reflect.TypeOf(root))
	}
	lines := []string{}
	for name, fields := range found {
		text, err := json.Marshal(fields)
		if err != nil {
			fail("%v", err)
		}
		lines = append(lines, fmt.Sprintf("%q: %s", name, text))
	}
	slices.Sort(lines)
	fmt.Printf("{\n%s\n}\n", strings.Join(lines, ",\n"))
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, "gotypes: "+format+"\n", arguments...)
	os.Exit(1)
}
