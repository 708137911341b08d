// jsonpatches applies JSON patches as kube-apiserver applies those of webhooks, with the library and
// the version that it uses (k8s.io/apiserver pkg/admission/plugin/webhook/mutating/dispatcher.go).
//
// It reads one JSON object a line, {"object": {...}, "patch": [...]}, and answers each with one line,
// in the same order: {"object": {...}} or {"error": "..."}.
package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

type asked struct {
	Object json.RawMessage `json:"object"`
	Patch  json.RawMessage `json:"patch"`
}

type answer struct {
	Object json.RawMessage `json:"object,omitempty"`
	Error  string          `json:"error,omitempty"`
}

func apply(one asked) answer {
	patch, err := jsonpatch.DecodePatch(one.Patch)
	if err != nil {
		return answer{Error: err.Error()}
	}
	object, err := patch.Apply(one.Object)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Object: object}
}

func main() {
	lines := json.NewDecoder(bufio.NewReader(os.Stdin))
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	answers := json.NewEncoder(out)
	answers.SetEscapeHTML(false)
	for {
		var one asked
		if err := lines.Decode(&one); err == io.EOF {
			return
		} else if err != nil {
			panic(err)
		}
		if err := answers.Encode(apply(one)); err != nil {
			panic(err)
		}
	}
}
