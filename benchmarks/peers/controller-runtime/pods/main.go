// Caches all Pods of a cluster in controller-runtime's cache: see benchmarks/peers/__init__.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const noteAnnotation = "bench.kubewright.dev/note"

// Answer is what the cache knows about the Pods.
type Answer struct {
	Count int                 `json:"count"`
	Pods  map[string][]string `json:"pods"`
}

func main() {
	ctrl.SetLogger(zap.New())
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	exitOn(err)
	exitOn(mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return answer(ctx, mgr) })))
	exitOn(mgr.Start(ctrl.SetupSignalHandler()))
}

// answer reads lines of Pod names, and writes what the cache holds.
func answer(ctx context.Context, mgr ctrl.Manager) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return err
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return errors.New("the cache's informer is not client-go's")
	}
	answers := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		found := Answer{Count: len(shared.GetStore().ListKeys()), Pods: map[string][]string{}}
		for _, name := range strings.Fields(lines.Text()) {
			var pod corev1.Pod
			key := types.NamespacedName{Namespace: "default", Name: name}
			if err := mgr.GetClient().Get(ctx, key, &pod); err == nil {
				found.Pods[name] = []string{pod.ResourceVersion, pod.Annotations[noteAnnotation]}
			}
		}
		if err := answers.Encode(found); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
