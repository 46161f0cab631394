/* plans.h: ops and plans drawn at random. */
#ifndef HEADRACE_CTEST_PLANS_H
#define HEADRACE_CTEST_PLANS_H

#include "../native.h"
#include "random.h"

/* 1 to 150 pixels; short sides are more frequent. */
int32_t some_side(random_state *r);

/* Any op, of sides up to 150 pixels. */
hrn_op some_op(random_state *r);

/* plans_pixels.c: any number in [low, high]; and two in order, which are equal now and then. */
double some_real(random_state *r, double low, double high);
void some_interval(random_state *r, double low, double high, double *p);

/* Any op on pixels; any op that leaves the size to chance. */
hrn_op some_pixel_op(random_state *r);
hrn_op some_sizing_op(random_state *r);

/* Up to three ops and any output; never NULL. */
hrn_plan *some_plan(random_state *r);

#endif
