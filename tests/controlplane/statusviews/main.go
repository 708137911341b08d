// statusviews says of each object what kstatus, Argo CD and `kubectl rollout status` say of it.
//
// It reads one JSON object a line and answers each with one line, in the same order:
//
//	{"kstatus": "InProgress", "argo": "Progressing", "rollout": "waiting",
//	 "messages": {"kstatus": "...", "argo": "...", "rollout": "..."}}
//
// argo is null for a kind that Argo CD's engine has no check for, rollout for what kubectl refuses
// to watch: other kinds, other strategies, and objects that are not what their kind promises.
// kstatus is Unknown where Compute returns an error, as its own pollers report it. Lines that are
// no JSON object are answered with {"error": "..."}.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// view is one tool's word, nil when the tool has none, and what it says beside it.
type view struct {
	word    *string
	message string
}

// A viewer may panic where the object's types are not what it expects, which ends the tool itself.
func guarded(read func(*unstructured.Unstructured) view, crashed *string, object *unstructured.Unstructured) (answer view) {
	defer func() {
		if cause := recover(); cause != nil {
			answer = view{crashed, fmt.Sprintf("panic: %v", cause)}
		}
	}()
	return read(object.DeepCopy())
}

func word[S ~string](value S) *string {
	text := string(value)
	return &text
}

func kstatus(object *unstructured.Unstructured) view {
	result, err := status.Compute(object)
	if err != nil {
		return view{word(status.UnknownStatus), err.Error()}
	}
	return view{word(result.Status), result.Message}
}

func argo(object *unstructured.Unstructured) view {
	// Without an override there is no Lua; an error comes with the health Unknown.
	found, err := health.GetResourceHealth(object, nil)
	switch {
	case found != nil:
		return view{word(found.Status), found.Message}
	case err != nil:
		return view{word(health.HealthStatusUnknown), err.Error()}
	default:
		return view{nil, "no check for this kind"}
	}
}

func rollout(object *unstructured.Unstructured) view {
	viewer, err := polymorphichelpers.StatusViewerFor(object.GroupVersionKind().GroupKind())
	if err != nil {
		return view{nil, err.Error()}
	}
	message, done, err := viewer.Status(object, 0)
	switch {
	case err != nil && strings.HasSuffix(err.Error(), "exceeded its progress deadline"):
		return view{word("failed"), err.Error()}
	case err != nil: // refused: the strategy has no rollout, or the object is not of its kind's type
		return view{nil, err.Error()}
	case done:
		return view{word("complete"), message}
	default:
		return view{word("waiting"), message}
	}
}

func answer(line []byte) map[string]any {
	// The decoder of the API machinery: whole numbers become int64 where they fit, as in a client.
	var content map[string]any
	if err := json.Unmarshal(line, &content); err != nil {
		return map[string]any{"error": err.Error()}
	}
	if content == nil {
		return map[string]any{"error": "not a JSON object"}
	}
	object := &unstructured.Unstructured{Object: content}
	unknown := word(status.UnknownStatus)
	seen := map[string]view{
		"kstatus": guarded(kstatus, unknown, object),
		"argo":    guarded(argo, word(health.HealthStatusUnknown), object),
		"rollout": guarded(rollout, nil, object),
	}
	messages := map[string]string{}
	told := map[string]any{"messages": messages}
	for tool, view := range seen {
		told[tool] = view.word
		messages[tool] = view.message
	}
	return told
}

func run(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			text, failed := json.Marshal(answer(line))
			if failed != nil {
				return failed
			}
			if _, failed := out.Write(append(text, '\n')); failed != nil {
				return failed
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "statusviews:", err)
		os.Exit(1)
	}
}
