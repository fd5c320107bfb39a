"""Fixtures and settings shared by all tests."""

import os

import numpy as np
import pytest

# For the clusters of these tests: no usage statistics are sent, and Ray Train checks its workers every 0.2 s, not 2 s.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_TRAIN_HEALTH_CHECK_INTERVAL_S"] = "0.2"


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def ray_system():
    """Ray settings for small, short-lived clusters on this machine."""
    return {
        # By default, Ray does not spill to a disk that is 95 % full, even if the few MB needed here would fit.
        "local_fs_capacity_threshold": 0.9999,
        # Ray notices a lost node after 3 s; by default it may take half a minute.
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 500,
        "health_check_failure_threshold": 6,
        # Idle processes stay for the next test, since starting one takes seconds.
        "idle_worker_killing_time_threshold_ms": 60_000,
    }
