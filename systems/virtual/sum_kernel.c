/* Adds one worker's gradients to the sums of RunningSum in one pass over memory (sum_kernel.py).

   Every product and every sum is rounded by itself, in the order that is written here, as in
   torch's own operations. Compile with -ffp-contract=off, since a fused multiply-add rounds only
   once, and without options that reorder sums. */

#include <stdint.h>

/* Elements whose sum stays in a core's first-level cache while its terms are added. */
#define BLOCK 2048

/* A row of the table, as sum_kernel.py writes it. */
struct piece {
    int64_t gradient; /* index of the gradient */
    int64_t offset;   /* first element in that gradient */
    int64_t count;    /* elements */
    int64_t first;    /* worker whose term begins the sum */
    float *total;     /* destination of the sum */
    float *kept;      /* terms of the workers above the first; the last worker's comes first */
    int64_t stride;   /* elements from one kept term to the next */
};

static void keep(float *restrict out, const float *restrict term, float factor, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = factor * term[i];
}

static void add_scaled(float *restrict sum, const float *restrict term, float factor, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        sum[i] += factor * term[i];
}

static void add(float *restrict sum, const float *restrict term, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        sum[i] += term[i];
}

void elastrace_take(const struct piece *pieces, int64_t num_pieces, const float *const *gradients,
                    float factor, int64_t worker, int64_t num_workers)
{
    for (const struct piece *piece = pieces; piece < pieces + num_pieces; piece++) {
        const float *term = gradients[piece->gradient] + piece->offset;
        if (worker > piece->first) {
            keep(piece->kept + (num_workers - 1 - worker) * piece->stride, term, factor,
                 piece->count);
            continue;
        }
        /* After worker 0 the ring goes on with the last worker, whose term is in row 0. */
        const int64_t num_kept = worker == 0 ? num_workers - 1 - piece->first : 0;
        for (int64_t start = 0; start < piece->count; start += BLOCK) {
            const int64_t left = piece->count - start, size = left < BLOCK ? left : BLOCK;
            float *sum = piece->total + start;
            if (worker == piece->first)
                keep(sum, term + start, factor, size);
            else
                add_scaled(sum, term + start, factor, size);
            for (int64_t row = 0; row < num_kept; row++)
                add(sum, piece->kept + row * piece->stride + start, size);
        }
    }
}
