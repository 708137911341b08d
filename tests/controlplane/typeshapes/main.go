// typeshapes prints the shapes of the Go types behind the kinds whose generation moves, as JSON.
//
// Semantic equality depends on Go types that JSON does not show: a missing key is equal to an
// empty list but not to a pointer to an empty struct, and "1000m" is equal to "1" only where the
// field is a Quantity. genguard/objects/type_shapes.json is this program's output.
//
// Usage: typeshapes GROUP/VERSION/KIND... (the core group is "core")
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// A code says how two values of one field are compared: "value" (a scalar whose zero is the same
// as absent), "quantity", "time", "raw" (text, key order counts), a type's name (a struct held by
// value), and around these "*" (pointer: absent differs from empty), "[]" (list), "{}" (map).
// Fields that need no rule beyond plain JSON equality are left out.
const plain = ""

var special = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():      "quantity",
	reflect.TypeFor[metav1.Time]():            "time",
	reflect.TypeFor[metav1.MicroTime]():       "time",
	reflect.TypeFor[runtime.RawExtension]():   "raw",
	reflect.TypeFor[apiextensions.JSON]():     "raw",
	reflect.TypeFor[metav1.FieldsV1]():        "raw",
}

var marshaler = reflect.TypeFor[json.Marshaler]()

type shapes map[string]map[string]string

func (s shapes) code(t reflect.Type) string {
	if code, ok := special[t]; ok {
		return code
	}
	switch t.Kind() {
	case reflect.Pointer:
		if code := s.code(t.Elem()); code != plain && code != "value" {
			return "*" + code
		}
		return plain
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "value"
		}
		return "[]" + s.code(t.Elem())
	case reflect.Map:
		return "{}" + s.code(t.Elem())
	case reflect.Struct:
		if t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
			return plain // writes itself in its own way, as IntOrString and Duration do
		}
		s.add(t)
		return name(t)
	case reflect.Interface:
		return plain
	default:
		return "value"
	}
}

func (s shapes) add(t reflect.Type) {
	if _, ok := s[name(t)]; ok {
		return
	}
	fields := map[string]string{}
	s[name(t)] = fields
	s.collect(t, fields)
}

func (s shapes) collect(t reflect.Type, into map[string]string) {
	for i := range t.NumField() {
		field := t.Field(i)
		key, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case key == "-" || !field.IsExported():
		case key == "" && (field.Anonymous || strings.Contains(options, "inline")):
			if field.Type != reflect.TypeFor[metav1.TypeMeta]() {
				s.collect(field.Type, into)
			}
		default:
			if code := s.code(field.Type); code != plain {
				into[key] = code
			}
		}
	}
}

func name(t reflect.Type) string {
	parts := strings.Split(t.PkgPath(), "/")
	return strings.Join(parts[len(parts)-2:], "/") + "." + t.Name()
}

func main() {
	if err := apiextensions.AddToScheme(scheme.Scheme); err != nil {
		fail(err)
	}
	types, roots := shapes{}, map[string]string{}
	for _, argument := range os.Args[1:] {
		parts := strings.SplitN(argument, "/", 3)
		if len(parts) != 3 {
			fail(fmt.Errorf("%q is not GROUP/VERSION/KIND", argument))
		}
		kind := schema.GroupVersionKind{Group: strings.TrimPrefix(parts[0], "core"), Version: parts[1], Kind: parts[2]}
		object, err := scheme.Scheme.New(kind)
		if err != nil {
			fail(err)
		}
		root := reflect.TypeOf(object).Elem()
		fields := map[string]string{}
		for i := range root.NumField() {
			field := root.Field(i)
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if key == "" || key == "metadata" || key == "status" {
				continue
			}
			if code := types.code(field.Type); code != plain {
				fields[key] = code
			}
		}
		types[name(root)] = fields
		roots[argument] = name(root)
	}
	out, err := json.Marshal(map[string]any{"roots": roots, "types": types})
	if err != nil {
		fail(err)
	}
	fmt.Println(string(out))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "typeshapes:", err)
	os.Exit(1)
}
