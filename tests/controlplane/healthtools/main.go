// healthtools says of custom resources what Argo CD and Flux say of them.
//
// `healthtools recorded` prints the objects on which Argo CD tests its own health checks, one a
// line: {"path": "...", "object": {...}, "expected": "Healthy"}.
//
// `healthtools` reads one JSON object a line and answers each with one line, in the same order:
//
//	{"object": {...}, "rule": {"current": "...", "failed": "...", "inProgress": "..."}}
//	{"argo": "Healthy", "flux": "Current"}
//
// argo is null for a kind without a check in Lua, and Unknown where the check fails; flux is null
// without a rule, and Unknown where an expression cannot be evaluated: Flux then waits.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/argoproj/argo-cd/v3/resource_customizations"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

const unknown = "Unknown"

// luaValue is the object as Argo CD hands it to a script: what has no Lua type is nil.
func luaValue(state *lua.LState, value any) lua.LValue {
	switch known := value.(type) {
	case bool:
		return lua.LBool(known)
	case string:
		return lua.LString(known)
	case int64:
		return lua.LNumber(known)
	case float64:
		return lua.LNumber(known)
	case []any:
		list := state.NewTable()
		for _, item := range known {
			list.Append(luaValue(state, item))
		}
		return list
	case map[string]any:
		table := state.NewTable()
		for key, item := range known {
			table.RawSetString(key, luaValue(state, item))
		}
		return table
	default:
		return lua.LNil
	}
}

// script is the check of a kind, or else of the first folder with a wildcard that matches.
func script(group, kind string) string {
	exact, err := resource_customizations.Embedded.ReadFile(path.Join(group, kind, "health.lua"))
	if err == nil {
		return string(exact)
	}
	groups, _ := fs.ReadDir(resource_customizations.Embedded, ".")
	for _, one := range groups {
		if !strings.Contains(one.Name(), "_") {
			continue
		}
		pattern := strings.ReplaceAll(one.Name(), "_", "*")
		if matches, _ := path.Match(pattern, group); !matches {
			continue
		}
		found, err := resource_customizations.Embedded.ReadFile(path.Join(one.Name(), "_", "health.lua"))
		if err == nil {
			return string(found)
		}
	}
	return ""
}

func argo(object *unstructured.Unstructured) *string {
	kind := object.GroupVersionKind()
	check := script(kind.Group, kind.Kind)
	if check == "" {
		return nil
	}
	word := unknown
	state := lua.NewState()
	defer state.Close()
	state.SetGlobal("obj", luaValue(state, object.Object))
	if err := state.DoString(check); err == nil {
		if table, is := state.Get(-1).(*lua.LTable); is {
			word = lua.LVAsString(table.RawGetString("status"))
		}
	}
	return &word
}

func flux(object *unstructured.Unstructured, rule *kustomize.HealthCheckExpressions) *string {
	if rule == nil {
		return nil
	}
	word := unknown
	evaluator, err := cel.NewStatusEvaluator(rule)
	if err == nil {
		if found, err := evaluator.Evaluate(context.Background(), object); err == nil {
			word = found.Status.String()
		}
	}
	return &word
}

type question struct {
	Object map[string]any                   `json:"object"`
	Rule   *kustomize.HealthCheckExpressions `json:"rule"`
}

func answer(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var asked question
			// The decoder of the API machinery: whole numbers become int64, as in a client.
			if failed := json.Unmarshal(line, &asked); failed != nil {
				return failed
			}
			if failed := json.ConvertMapNumbers(asked.Object, 0); failed != nil {
				return failed
			}
			object := &unstructured.Unstructured{Object: asked.Object}
			text, failed := json.Marshal(map[string]*string{"argo": argo(object), "flux": flux(object, asked.Rule)})
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

type recordedTests struct {
	Tests []struct {
		InputPath    string `json:"inputPath"`
		HealthStatus struct {
			Status string `json:"status"`
		} `json:"healthStatus"`
	} `json:"tests"`
}

func recorded(out io.Writer) error {
	files := resource_customizations.Embedded
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "health_test.yaml" {
			return err
		}
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		var tests recordedTests
		if err := yaml.Unmarshal(text, &tests); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, one := range tests.Tests {
			input := path.Join(path.Dir(name), one.InputPath)
			text, err := files.ReadFile(input)
			if err != nil {
				return err
			}
			var object map[string]any
			if err := yaml.Unmarshal(text, &object); err != nil {
				return fmt.Errorf("%s: %w", input, err)
			}
			line, err := json.Marshal(map[string]any{
				"path": input, "object": object, "expected": one.HealthStatus.Status,
			})
			if err != nil {
				return err
			}
			if _, err := out.Write(append(line, '\n')); err != nil {
				return err
			}
		}
		return nil
	})
}

func main() {
	var err error
	if len(os.Args) == 2 && os.Args[1] == "recorded" {
		err = recorded(os.Stdout)
	} else {
		err = answer(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "healthtools:", err)
		os.Exit(1)
	}
}
