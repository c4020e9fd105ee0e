module batchrun.dev/sandboxd

go 1.24
