package main

import "context"

func measureBoundsSidecar(context.Context, *bench) (*result, error) { return &result{}, nil }
