// The loop of loop.json on a real API server: red with the culprit, green without it.
//
//	KUBEBUILDER_ASSETS=... go test ./...                       what the recording shows
//	WITHOUT_CULPRIT=1 KUBEBUILDER_ASSETS=... go test ./...     the same without the culprit
//	WEBHOOK_URL=https://... WEBHOOK_CA=ca.pem ... go test ./... with your webhook in its place
//
// `setup-envtest use` of controller-runtime brings the binaries.
package reproduce

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	most         = 3  // harmed writes that are no loop yet
	mostAgain    = 10 // changes of one field by the culprit alone
	webhookDelay = 2 * time.Second
)

type object = map[string]any

type held struct {
	Field  []string
	What   string
	Object []string
	Offset int64
}

type write struct {
	User, Verb, Resource, Version, Namespace, Name, Subresource string
	Changes                                                     []object
	Renewed                                                     [][]string
	Held                                                        []held
	Refused                                                     bool
}

type effect struct {
	Resource, Operation, Does string
	Field, Users              []string
	Values                    []any
}

type beginning struct {
	Resource string
	Document object
}

type loop struct {
	Paths       []string
	Culprit     string
	Definitions []apiextensionsv1.CustomResourceDefinition
	Objects     []beginning
	Writes      []write
	Effects     []effect
	Order       [][2]int
	Played      int
}

type player struct {
	t      *testing.T
	loop   loop
	config *rest.Config
	last   map[string]any // what each user has last left, by user, object and path
	harm   map[string]int
	calls  map[int]int // of each effect
}

func TestTheWritesComeToRest(t *testing.T) {
	text, err := os.ReadFile("loop.json")
	must(t, err)
	p := player{t: t, last: map[string]any{}, harm: map[string]int{}, calls: map[int]int{}}
	must(t, json.Unmarshal(text, &p.loop))
	env := envtest.Environment{}
	for i := range p.loop.Definitions {
		env.CRDs = append(env.CRDs, &p.loop.Definitions[i])
	}
	p.config, err = env.Start()
	must(t, err)
	defer env.Stop()
	p.config.QPS = -1
	without := os.Getenv("WITHOUT_CULPRIT") != ""
	for _, one := range p.loop.Objects {
		p.create("somebody", one.Resource, one.Document)
	}
	if !without && len(p.loop.Effects) > 0 {
		defer p.register()()
	}
	played := p.loop.Played / 2
	for turn := 0; turn < played; turn++ {
		next := p.loop.Order[turn%len(p.loop.Order)]
		one := p.loop.Writes[next[0]]
		if without && one.User == p.loop.Culprit {
			continue
		}
		p.send(one, next[1], turn)
	}
	for what, count := range p.harm {
		limit := most
		if what == "changed again by the culprit" {
			limit = mostAgain
		}
		if count >= limit {
			t.Errorf("%s: %d times in %d writes (%s)", what, count, played, strings.Join(p.loop.Paths, ", "))
		}
	}
}

// send sends one write as its user, and counts the harm that is done.
func (p *player) send(one write, change, turn int) {
	client := p.of(one.User, one)
	before := p.stored(one)
	var err error
	asked := object{}
	switch one.Verb {
	case "delete":
		background := metav1.DeletePropagationBackground
		name := one.Changes[change]["metadata"].(object)["name"].(string)
		err = client.Delete(context.TODO(), name, metav1.DeleteOptions{PropagationPolicy: &background})
		if err == nil {
			p.harm["deleted and made again"]++
		}
	case "create":
		err = p.create(one.User, one.Resource, clone(one.Changes[change]))
	case "put":
		document := clone(one.Changes[change])
		document["metadata"].(object)["resourceVersion"] = "1"
		_, err = client.Update(context.TODO(), &unstructured.Unstructured{Object: document}, metav1.UpdateOptions{}, below(one)...)
		if err != nil {
			p.harm["refused"]++
		}
	default:
		asked = p.asked(one, change, turn)
		body, _ := json.Marshal(asked)
		_, err = client.Patch(context.TODO(), one.Name, types.MergePatchType, body, metav1.PatchOptions{}, below(one)...)
	}
	if err != nil {
		if one.Refused {
			p.harm["refused"]++
		} else if !errors.IsConflict(err) && !errors.IsNotFound(err) && !errors.IsAlreadyExists(err) {
			p.t.Fatalf("%s by %s: %v", one.Verb, one.User, err)
		}
		return
	}
	p.count(one, asked, before, p.stored(one))
}

// count compares what was asked for with what is stored, at the fields of the finding.
func (p *player) count(one write, asked, before, after object) {
	for _, path := range p.loop.Paths {
		field := strings.Split(strings.TrimPrefix(path, "/"), "/")
		for i := range field {
			field[i] = strings.ReplaceAll(strings.ReplaceAll(field[i], "~1", "/"), "~0", "~")
		}
		wanted, isAsked := at(asked, field)
		was, _ := at(before, field)
		is, _ := at(after, field)
		key := strings.Join([]string{one.User, one.Resource, one.Name, path}, " ")
		if mine, known := p.last[key]; known && !reflect.DeepEqual(mine, was) {
			p.harm["changed by somebody else"]++
		}
		if isAsked && !reflect.DeepEqual(wanted, is) {
			p.harm["not stored as asked for"]++
		}
		if !isAsked && !reflect.DeepEqual(was, is) {
			p.harm["changed though nobody asked"]++
		}
		if isAsked && one.User == p.loop.Culprit && !reflect.DeepEqual(was, is) {
			p.harm["changed again by the culprit"]++
		}
		if isAsked {
			p.last[key] = is
		}
	}
}

// asked returns what a write asks for in its turn.
func (p *player) asked(one write, change, turn int) object {
	if one.Verb == "move" {
		if strings.Contains(strings.SplitN(one.Resource+".", ".", 2)[1], ".") {
			return object{"spec": object{"moved": turn}}
		}
		return object{"spec": object{"minReadySeconds": turn}}
	}
	made := clone(one.Changes[change])
	for _, field := range one.Renewed {
		if value, found := at(made, field); found {
			put(made, field, another(value, turn))
		}
	}
	for _, number := range one.Held {
		if _, found := at(made, number.Field); !found {
			continue
		}
		target := one
		if len(number.Object) == 3 {
			target.Resource, target.Namespace, target.Name = number.Object[0], number.Object[1], number.Object[2]
		}
		metadata, _ := p.stored(target)["metadata"].(object)
		if number.What == "generation" {
			generation, _ := metadata["generation"].(int64)
			put(made, number.Field, generation+number.Offset)
		} else {
			put(made, number.Field, metadata["resourceVersion"])
		}
	}
	return made
}

func (p *player) of(user string, one write) dynamic.ResourceInterface {
	config := rest.CopyConfig(p.config)
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	}
	client, err := dynamic.NewForConfig(config)
	must(p.t, err)
	plural, group, _ := strings.Cut(one.Resource, ".")
	resource := client.Resource(schema.GroupVersionResource{Group: group, Version: one.Version, Resource: plural})
	if one.Namespace == "" {
		return resource
	}
	return resource.Namespace(one.Namespace)
}

func (p *player) stored(one write) object {
	found, err := p.of("", one).Get(context.TODO(), one.Name, metav1.GetOptions{})
	if err != nil {
		return object{}
	}
	return found.Object
}

// create makes an object, and its namespace before it.
func (p *player) create(user, resource string, document object) error {
	one := unstructured.Unstructured{Object: document}
	where := write{Resource: resource, Namespace: one.GetNamespace(), Version: one.GroupVersionKind().Version}
	if where.Namespace != "" {
		namespace := unstructured.Unstructured{Object: object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": where.Namespace}}}
		p.of("", write{Resource: "namespaces", Version: "v1"}).Create(context.TODO(), &namespace, metav1.CreateOptions{})
	}
	_, err := p.of(user, where).Create(context.TODO(), &one, metav1.CreateOptions{})
	if err != nil && !errors.IsAlreadyExists(err) {
		p.t.Fatalf("create %s: %v", one.GetName(), err)
	}
	return err
}

// register registers your webhook, or one that does what the recording shows; call what it returns.
func (p *player) register() func() {
	url, authority := os.Getenv("WEBHOOK_URL"), []byte(nil)
	stop := func() {}
	if url == "" {
		server := httptest.NewTLSServer(http.HandlerFunc(p.answer))
		url, stop = server.URL, server.Close
		authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	} else if file := os.Getenv("WEBHOOK_CA"); file != "" {
		text, err := os.ReadFile(file)
		must(p.t, err)
		authority = text
	}
	rules := []any{}
	for _, one := range p.loop.Effects {
		target, below, _ := strings.Cut(one.Resource, "/")
		plural, group, _ := strings.Cut(target, ".")
		if below != "" {
			plural += "/" + below
		}
		rules = append(rules, object{"apiGroups": []any{group}, "apiVersions": []any{"*"}, "operations": []any{one.Operation}, "resources": []any{plural}})
	}
	configuration := unstructured.Unstructured{Object: object{
		"apiVersion": "admissionregistration.k8s.io/v1",
		"kind":       "MutatingWebhookConfiguration",
		"metadata":   object{"name": "culprit"},
		"webhooks": []any{object{
			"name": "culprit.example.org", "rules": rules, "sideEffects": "None",
			"admissionReviewVersions": []any{"v1"},
			"clientConfig":            object{"url": url, "caBundle": base64.StdEncoding.EncodeToString(authority)},
		}},
	}}
	where := write{Resource: "mutatingwebhookconfigurations.admissionregistration.k8s.io", Version: "v1"}
	_, err := p.of("", where).Create(context.TODO(), &configuration, metav1.CreateOptions{})
	must(p.t, err)
	time.Sleep(webhookDelay) // the API server hears of it by a watch
	return stop
}

// answer does what the recording shows: `effects` in loop.json.
func (p *player) answer(w http.ResponseWriter, r *http.Request) {
	review := admissionv1.AdmissionReview{}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	request := review.Request
	after := object{}
	json.Unmarshal(request.Object.Raw, &after)
	resource := strings.TrimSuffix(request.Resource.Resource+"."+request.Resource.Group, ".")
	if request.SubResource != "" {
		resource += "/" + request.SubResource
	}
	operations := []object{}
	for number, one := range p.loop.Effects {
		isUser := len(one.Users) == 0
		for _, user := range one.Users {
			isUser = isUser || user == request.UserInfo.Username
		}
		if one.Resource != resource || one.Operation != string(request.Operation) || !isUser {
			continue
		}
		value, found := at(after, one.Field)
		call := p.calls[number]
		p.calls[number]++
		switch {
		case one.Does == "remove" && !found:
			continue
		case one.Does == "remove":
			operations = append(operations, object{"op": "remove", "path": pointer(one.Field)})
			continue
		case one.Does == "append":
			text, _ := value.(string)
			value = text + one.Values[0].(string)
		case one.Does == "renew":
			value = another(one.Values[0], call)
		default:
			value = one.Values[call%len(one.Values)]
		}
		for i := 1; i < len(one.Field); i++ {
			if _, there := at(after, one.Field[:i]); !there {
				operations = append(operations, object{"op": "add", "path": pointer(one.Field[:i]), "value": object{}})
				put(after, one.Field[:i], object{})
			}
		}
		operations = append(operations, object{"op": "add", "path": pointer(one.Field), "value": value})
	}
	patch, _ := json.Marshal(operations)
	kind := admissionv1.PatchTypeJSONPatch
	review.Response = &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true, Patch: patch, PatchType: &kind}
	review.Request = nil
	json.NewEncoder(w).Encode(review)
}

func pointer(field []string) string {
	text := ""
	for _, name := range field {
		text += "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
	}
	return text
}

func at(document object, field []string) (any, bool) {
	var value any = document
	for _, name := range field {
		if items, isList := value.([]any); isList {
			index, err := strconv.Atoi(name)
			if err != nil || index >= len(items) {
				return nil, false
			}
			value = items[index]
			continue
		}
		inner, isObject := value.(object)
		if !isObject {
			return nil, false
		}
		below, found := inner[name]
		if !found {
			return nil, false
		}
		value = below
	}
	if number, isFloat := value.(float64); isFloat && number == float64(int64(number)) {
		return int64(number), true
	}
	return value, true
}

func put(document object, field []string, value any) {
	for _, name := range field[:len(field)-1] {
		inner, isObject := document[name].(object)
		if !isObject {
			inner = object{}
			document[name] = inner
		}
		document = inner
	}
	document[field[len(field)-1]] = value
}

func another(value any, turn int) any {
	switch known := value.(type) {
	case float64, int64:
		return int64(1_000 + turn)
	case string:
		if strings.HasPrefix(known, "2026-01-01T") {
			return fmt.Sprintf("2026-01-01T00:%02d:%02dZ", turn/60, turn%60)
		}
		return fmt.Sprintf("%s-%d", known, turn)
	}
	return value
}

func clone(document object) object {
	text, _ := json.Marshal(document)
	made := object{}
	json.Unmarshal(text, &made)
	return made
}

func below(one write) []string {
	if one.Subresource == "" {
		return nil
	}
	return []string{one.Subresource}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
