/* pixel_list.c: the list of pixel ops that are drawn for one image. */
#include <string.h>

#include "pixel_draw.h"

hrn_pixel_op *hrn_pixel_append(hrn_pixel_list *list, int32_t kind, hrn_status *status) {
  if (list->count == HRN_MAX_PIXEL_OPS) {
    hrn_fail(status, HRN_LIMIT, -1, "more than %d ops on one image's pixels", HRN_MAX_PIXEL_OPS);
    return NULL;
  }
  hrn_pixel_op *op = &list->op[list->count++];
  memset(op, 0, sizeof *op);
  op->kind = kind;
  return op;
}

int hrn_mix_begin(hrn_pixel_list *list, double original, hrn_status *status) {
  hrn_pixel_op *op = hrn_pixel_append(list, HRN_PIXEL_MIX_BEGIN, status);
  if (op != NULL) op->args.weight = original;
  return status->code;
}

int hrn_mix_chain(hrn_pixel_list *list, double weight, hrn_status *status) {
  hrn_pixel_op *op = hrn_pixel_append(list, HRN_PIXEL_MIX_CHAIN, status);
  if (op != NULL) op->args.weight = weight;
  return status->code;
}

int hrn_mix_end(hrn_pixel_list *list, double blend, hrn_status *status) {
  hrn_pixel_op *op = hrn_pixel_append(list, HRN_PIXEL_MIX_END, status);
  if (op != NULL) op->args.blend = blend;
  return status->code;
}
