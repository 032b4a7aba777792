// The one place that chooses the version of libfuse's interface.
#pragma once

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>
