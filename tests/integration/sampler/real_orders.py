"""Answers each line `samples ranks batch_size shuffle drop_last epoch` on standard input by one
line per rank: what Paddle's own sampler has that rank read, in order."""

import sys

from paddle.io import DistributedBatchSampler


class Numbers:
    """A data set that is only as long as it says."""

    def __init__(self, samples: int) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return self._samples


def main() -> None:
    for line in sys.stdin:
        samples, ranks, batch_size, shuffle, drop_last, epoch = map(int, line.split())
        for rank in range(ranks):
            sampler = DistributedBatchSampler(
                Numbers(samples), batch_size, ranks, rank, bool(shuffle), bool(drop_last)
            )
            sampler.set_epoch(epoch)
            batches = list(sampler)
            # That batches are runs of batch_size, of which only the last may be shorter, is what
            # lets one list stand for all of them.
            assert len(batches) == len(sampler)
            assert all(len(batch) == batch_size for batch in batches[:-1])
            assert not batches or len(batches[-1]) == batch_size or not drop_last
            print(*(index for batch in batches for index in batch))


if __name__ == "__main__":
    main()
