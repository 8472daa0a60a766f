// All optimizers, schedules and clipping.
#pragma once
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/scheduler.h"
#include "optim/sgd.h"
