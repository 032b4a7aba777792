"""Makes a small image set: JPEG files in one folder per class, and list.txt with a label for each.

    make_images.py DIRECTORY [--count 3000] [--classes 10] [--size 240]

The pictures are bright squares over noise: easy to learn from, as hard to compress as photographs, and with the
default size as large as those of the first 128,660 of ImageNet on average (35 KB).
"""

import argparse
import functools
import multiprocessing
import pathlib

import numpy as np
from PIL import Image


def picture(index: int, label: int, classes: int, size: int) -> Image.Image:
    random = np.random.RandomState(index)
    pixels = random.randint(0, 160, (size, size, 3), dtype=np.uint8)
    # The class is the place of a bright square on a circle.
    angle = 2 * np.pi * label / classes
    x, y = (int(size / 2 + size / 3 * f(angle)) for f in (np.cos, np.sin))
    half = size // 10
    pixels[max(0, y - half) : y + half, max(0, x - half) : x + half] = (255, 230, 90)
    return Image.fromarray(pixels)


def path_of(index: int, label: int) -> str:
    return f"class-{label}/{index:06}.jpg"


def save(directory: pathlib.Path, classes: int, size: int, index: int) -> int:
    """Makes one picture; its bytes."""
    label = index % classes
    file = directory / path_of(index, label)
    picture(index, label, classes, size).save(file, quality=85)
    return file.stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--size", type=int, default=240)
    options = parser.parse_args()
    for label in range(options.classes):
        (options.directory / f"class-{label}").mkdir(parents=True, exist_ok=True)
    with multiprocessing.Pool() as pool:
        make = functools.partial(save, options.directory, options.classes, options.size)
        total = sum(pool.imap_unordered(make, range(options.count), chunksize=50))
    lines = [f"{path_of(index, index % options.classes)} {index % options.classes}" for index in range(options.count)]
    (options.directory / "list.txt").write_text("\n".join(lines) + "\n")
    print(f"{options.count} images, {total / 2**20:.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
