// Reads objects, one in a line of standard input, and writes what kubectl rollout status and kstatus say about each.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(lines.Bytes()); err != nil {
			panic(err)
		}
		answer, _ := json.Marshal(map[string]string{"rollout": rollout(obj), "kstatus": kstatus(obj)})
		fmt.Println(string(answer))
	}
}

func rollout(obj *unstructured.Unstructured) string {
	viewer, err := polymorphichelpers.StatusViewerFor(obj.GroupVersionKind().GroupKind())
	if err != nil {
		return ""
	}
	_, done, err := viewer.Status(obj, 0)
	switch {
	case err != nil && !done:
		return "error"
	case done:
		return "done"
	}
	return "waiting"
}

func kstatus(obj *unstructured.Unstructured) string {
	found, err := status.Compute(obj)
	if err != nil {
		return "error"
	}
	return string(found.Status)
}
