"""Makes a small image set: JPEG files in one folder per class, and list.txt with a label for each.

    make_images.py DIRECTORY [--count 3000] [--classes 10] [--size 128]

The pictures are coloured shapes over noise: easy to learn from, and as hard to compress as photographs.
"""

import argparse
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--size", type=int, default=128)
    options = parser.parse_args()
    lines, total = [], 0
    for index in range(options.count):
        label = index % options.classes
        path = f"class-{label}/{index:06}.jpg"
        file = options.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        picture(index, label, options.classes, options.size).save(file, quality=85)
        total += file.stat().st_size
        lines.append(f"{path} {label}")
    (options.directory / "list.txt").write_text("\n".join(lines) + "\n")
    print(f"{options.count} images, {total / 2**20:.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
