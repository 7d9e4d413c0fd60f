"""Attacks on nodes that share a NATS, and on calls that one node hands on to another."""

import subprocess

import attacks
import cluster_nodes
import harness

Attacks = attacks.cases('cluster', 'cluster_storage', at_once=2)  # each has two nodes

if __name__ == '__main__':
    if not cluster_nodes.Nats.program or subprocess.run([cluster_nodes.Nats.program, '-v'], stdout=subprocess.DEVNULL).returncode:
        raise SystemExit('nats-server is not installed')
    harness.main()
