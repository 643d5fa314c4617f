// Program clients does what operators written in Go do to an API server, with the libraries that they use.
//
// Usage: clients <scenario> <namespace>, with KUBECONFIG set, or KUBEBUILDER_ASSETS for the scenario envtest. It exits with 1, and says last what went wrong, when
// something did not go as it should.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// patience is how long to wait for anything: a real garbage collector notices new kinds every 30 seconds.
const patience = time.Minute

// scenario acts in a namespace of its own and returns what went wrong.
type scenario func(ctx context.Context, config *rest.Config, namespace string) error

var scenarios = map[string]scenario{
	"typed":     typed,
	"apply":     apply,
	"informers": informers,
	"election":  election,
	"events":    events,
	"manager":   runManager,
	"webhooks":  webhooksByURL,
	"services":  webhooksByService,
	"envtest":   inEnvtest,
}

func main() {
	if len(os.Args) != 3 || scenarios[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: clients <scenario> <namespace>")
		os.Exit(2)
	}
	config, err := &rest.Config{}, error(nil)
	if path := os.Getenv("KUBECONFIG"); path != "" {
		config, err = clientcmd.BuildConfigFromFlags("", path)
	}
	if err == nil {
		config.QPS = -1
		ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
		defer cancel()
		err = scenarios[os.Args[1]](ctx, config, os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// eventually waits until check returns nil; if it never does, its last error is returned.
func eventually(ctx context.Context, check func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}
