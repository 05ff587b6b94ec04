"""What users test their workflows with: virtual time, a store that injects faults, the conformance suite of stores, a pytest plugin."""
