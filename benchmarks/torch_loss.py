"""What RobustOTLoss costs on a GPU beside cross-entropy: forward and backward, in eager torch and in a CUDA graph.

    python benchmarks/torch_loss.py

Both losses are timed in the same run, on the same tensors; figures are medians by CUDA events. Launches are counted by torch's
profiler. Needs torch, robust_ot and an NVIDIA GPU.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import torch
from robust_ot.torch import RobustOTLoss
from torch import Tensor

# Rows, labels, labels per row (0 for class indices), precision.
CASES = [
    (128, 1000, 5, torch.float32),
    (1000, 1000, 5, torch.float32),
    (128, 20000, 5, torch.float32),
    (128, 1000, 0, torch.float32),
    (1000, 1000, 0, torch.float32),
    (128, 1000, 5, torch.float64),
]
# Dimensions of the label vectors.
DIM = 300
EAGER, REPLAYS, WARM = 100, 100, 10


def median(step: Callable[[], None], count: int) -> float:
    """Milliseconds of a step, between events around each."""
    for _ in range(WARM):
        step()
    torch.cuda.synchronize()
    times = []
    for _ in range(count):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def launches(step: Callable[[], None]) -> tuple[int, list[tuple[str, float]]]:
    """How many kernels, copies and fills a step launches, with the microseconds of each by name."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    step()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        step()
        torch.cuda.synchronize()
    events = [event for event in found.events() if event.device_type == DeviceType.CUDA]
    return len(events), [(event.name[:48], event.device_time) for event in events]


def captured(step: Callable[[], None]) -> Callable[[], None]:
    """The step as a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def main() -> None:
    """Print a table, and the kernels of a step with --kernels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", action="store_true", help="list the kernels of a step with their times")
    parser.add_argument("--max-labels", type=int, default=32)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, max_labels {arguments.max_labels}; milliseconds")
    print(" rows labels  true     type | eager: CE    ours | graph: CE    ours  beyond | launches: CE  ours    MiB")
    for rows, labels, count, dtype in CASES:
        z = torch.randn(rows, labels, dtype=dtype, device="cuda", requires_grad=True)
        if count:
            target = torch.zeros(rows, labels, dtype=torch.uint8, device="cuda")
            target.scatter_(1, torch.rand(rows, labels, device="cuda").topk(count, dim=1).indices, 1)
            shares: Tensor = target.to(dtype) / count
        else:
            target = torch.randint(labels, (rows,), device="cuda")
            shares = target
        # What is measured includes mix_ce=1 times the cross-entropy.
        loss = RobustOTLoss(torch.randn(labels, DIM), fw_iterations=1, max_labels=arguments.max_labels)

        def plain(z: Tensor = z, shares: Tensor = shares) -> None:
            z.grad = None
            torch.nn.functional.cross_entropy(z, shares).backward()

        def ours(z: Tensor = z, target: Tensor = target, loss: RobustOTLoss = loss) -> None:
            z.grad = None
            loss(z, target).backward()

        ours()
        torch.cuda.set_sync_debug_mode("error")
        ours()
        torch.cuda.set_sync_debug_mode("default")
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        ours()
        room = (torch.cuda.max_memory_allocated() - before) / 2**20
        eager = [median(step, EAGER) for step in (plain, ours)]
        (of_plain, _), (of_ours, kernels) = launches(plain), launches(ours)
        graph = [median(captured(step), REPLAYS) for step in (plain, ours)]
        print(
            f"{rows:5} {labels:6} {count or 'class':>5} {str(dtype)[6:]:>8} | {eager[0]:9.3f} {eager[1]:7.3f} | "
            f"{graph[0]:9.3f} {graph[1]:7.3f} {graph[1] - graph[0]:7.3f} | {of_plain:12} {of_ours:5} {room:6.0f}",
            flush=True,
        )
        if arguments.kernels:
            for name, time in kernels:
                print(f"      {time:8.1f} us  {name}")


if __name__ == "__main__":
    main()
