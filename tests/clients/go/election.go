package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// election has two candidates for a Lease: one leads, gives it up, and the other follows.
func election(ctx context.Context, config *rest.Config, namespace string) error {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	elected := make(chan string, 2)
	first, giveUp := context.WithCancel(ctx)
	defer giveUp()
	if err := stand(first, clients, namespace, "one", elected); err != nil {
		return err
	}
	if err := leads(ctx, "one", elected); err != nil {
		return err
	}
	if err := stand(ctx, clients, namespace, "two", elected); err != nil {
		return err
	}
	giveUp()
	if err := leads(ctx, "two", elected); err != nil {
		return err
	}
	held, err := clients.CoordinationV1().Leases(namespace).Get(ctx, "leader", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if *held.Spec.HolderIdentity != "two" || *held.Spec.LeaseTransitions == 0 {
		return fmt.Errorf("lease: %+v", held.Spec)
	}
	return nil
}

func stand(ctx context.Context, clients kubernetes.Interface, namespace, identity string, elected chan<- string) error {
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, "leader",
		clients.CoreV1(), clients.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity})
	if err != nil {
		return err
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   2 * time.Second,
		RenewDeadline:   time.Second,
		RetryPeriod:     200 * time.Millisecond,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { elected <- identity },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	go elector.Run(ctx)
	return nil
}

func leads(ctx context.Context, identity string, elected <-chan string) error {
	select {
	case who := <-elected:
		if who != identity {
			return fmt.Errorf("%s leads, not %s", who, identity)
		}
		return nil
	case <-time.After(20 * time.Second):
		return errors.New("nobody leads; waited for " + identity)
	case <-ctx.Done():
		return ctx.Err()
	}
}
