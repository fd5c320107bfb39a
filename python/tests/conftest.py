"""Shared by all tests."""

import os

import numpy as np
import pytest

# For the clusters of these tests: nothing is sent anywhere, and Ray Train looks at its workers every 0.2 s, not every 2 s.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_TRAIN_HEALTH_CHECK_INTERVAL_S"] = "0.2"


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def ray_system():
    """Settings of Ray for clusters that are small, short-lived and all on this machine."""
    return {
        # Ray spills no byte onto a disk that is 95 % full, which says nothing of the few MB needed here.
        "local_fs_capacity_threshold": 0.9999,
        # A node that left is missed after 3 s; it may take half a minute otherwise.
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 500,
        "health_check_failure_threshold": 6,
        # Processes without work stay for the next test: to start one takes seconds.
        "idle_worker_killing_time_threshold_ms": 60_000,
    }
