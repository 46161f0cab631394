/* mixing.h: what MixUp and CutMix draw.
 *
 * They make a sample of two samples of a batch. The caller chooses the two; the draws for them are
 * made here.
 */
#ifndef HEADRACE_DRAWS_MIXING_H
#define HEADRACE_DRAWS_MIXING_H

#include "draws.h"
#include "../core/status.h"

enum hrn_mix_form { HRN_MIX_TORCHVISION = 1, HRN_MIX_TIMM = 2 };
enum hrn_mix_unit { /* what one draw is for; the key's sample says which */
                    HRN_MIX_BATCH = 0,
                    HRN_MIX_PAIR = 1,
                    HRN_MIX_ELEMENT = 2
};

typedef struct hrn_mix_op {
  int32_t op;         /* its number in the whole list, which is part of the key */
  int32_t form, unit; /* the enums above */
  int32_t correct;    /* timm's correct_lam */
  double weight;      /* its weight in a choice */
  double alpha[2];    /* of MixUp and of CutMix; 0: not done */
  double probability; /* that anything is done */
  double switching;   /* that it is CutMix, if both may be done */
  double shares[2];   /* timm's cutmix_minmax; 0: none */
} hrn_mix_op;

#define HRN_MAX_MIX_OPS 8
typedef struct hrn_mix_list {
  int32_t count;  /* 1, or the number of ops that one is chosen from */
  int32_t choice; /* number of the choice, if there is one */
  hrn_mix_op ops[HRN_MAX_MIX_OPS];
} hrn_mix_list;

enum hrn_mix_kind { HRN_MIX_NONE = 0, HRN_MIX_MIXUP = 1, HRN_MIX_CUTMIX = 2 };

/* What is done to one sample. */
typedef struct hrn_mixing {
  int32_t kind;                     /* enum hrn_mix_kind */
  int32_t top, left, height, width; /* CutMix: the box that comes from the partner, perhaps empty */
  int32_t reserved;
  double drawn;  /* lambda as the beta distribution gave it */
  double lambda; /* the weight of the sample itself, in its label too */
} hrn_mixing;

/* Refuses a list that cannot be drawn from, for samples of that size. */
int hrn_mix_check(const hrn_mix_list *list, uint32_t width, uint32_t height, hrn_status *status);

/* Draws from a checked list. The key's `draw` is the position where the step of all ranks begins,
 * `sample` the row of that step. */
void hrn_mix_draw(const hrn_mix_list *list, const hrn_key *key, uint32_t width, uint32_t height,
                  hrn_mixing *mixing);

#endif
