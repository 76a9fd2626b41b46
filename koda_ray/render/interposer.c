/* Raw frames out of a Chromium that links libjpeg: loaded before it, this takes the place of its encoder's functions.

   Where a picture is encoded with quality 100, nothing is encoded: its rows become planes of YUV 4:2:0 (BT.709, studio
   range, chroma between the four pixels it stands for), in memory that the reader shares, and what goes out as the
   picture is a line that says where they are. Every other picture is libjpeg's own. Only the browser process is meant:
   the variables that bring this library and name its memory are gone before it starts another process, and that memory's
   descriptor is closed.

   The arithmetic is of whole numbers: the same on every machine. Source: ITU-R BT.709-6, libjpeg's interface 6.2. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

#if JPEG_LIB_VERSION != 62 || !defined(JCS_ALPHA_EXTENSIONS)
#error "a libjpeg-turbo with the interface 6.2 is needed"
#endif

#define SLOTS 2
#define QUALITY 100
#define PIXEL_BYTES 4

/* The function that this library stands before. */
#define NEXT(name)                                                                                                     \
    ({                                                                                                                 \
        static __typeof__(name) *next;                                                                                 \
        if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name);                                                 \
        next;                                                                                                          \
    })

static uint8_t *memory;
static size_t slot_bytes;
static atomic_uint frames;

/* The picture that a thread is at. */
static __thread struct {
    j_compress_ptr info;
    int wanted, taken, red;
    unsigned number;
    size_t width, row;
    uint8_t *y, *u, *v;
    uint8_t *above; /* the upper one of two rows: the encoder may be handed the lower one in the same place */
    size_t above_bytes;
} now;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("INTERPOSER_FD");
    struct stat file;
    if (name && fstat(atoi(name), &file) == 0 && file.st_size > 0) {
        void *at = mmap(NULL, file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(name), 0);
        close(atoi(name));
        if (at != MAP_FAILED) {
            memory = at;
            slot_bytes = file.st_size / SLOTS;
        }
    }
    unsetenv("INTERPOSER_FD");
    unsetenv("LD_PRELOAD");
}

static int is_ours(j_compress_ptr info) { return now.taken && now.info == info; }

/* Whether a picture can be taken; its planes are laid out then. */
static int take(j_compress_ptr info) {
    size_t width = info->image_width, height = info->image_height, pixels = width * height;
    switch (info->in_color_space) {
    case JCS_EXT_RGBX:
    case JCS_EXT_RGBA:
        now.red = 0;
        break;
    case JCS_EXT_BGRX:
    case JCS_EXT_BGRA:
        now.red = 2;
        break;
    default:
        return 0;
    }
    if (width % 2 || height % 2 || pixels + pixels / 2 > slot_bytes) return 0;
    if (now.above_bytes < width * PIXEL_BYTES) {
        uint8_t *larger = realloc(now.above, width * PIXEL_BYTES);
        if (!larger) return 0;
        now.above = larger;
        now.above_bytes = width * PIXEL_BYTES;
    }
    now.number = atomic_fetch_add(&frames, 1);
    now.y = memory + now.number % SLOTS * slot_bytes;
    now.u = now.y + pixels;
    now.v = now.u + pixels / 4;
    now.width = width;
    now.row = 0;
    return 1;
}

void jpeg_set_quality(j_compress_ptr info, int quality, boolean baseline) {
    now.info = info;
    now.wanted = memory && quality == QUALITY;
    now.taken = 0;
    NEXT(jpeg_set_quality)(info, quality, baseline);
}

void jpeg_start_compress(j_compress_ptr info, boolean tables) {
    now.taken = now.info == info && now.wanted && take(info);
    if (!now.taken) NEXT(jpeg_start_compress)(info, tables);
}

void jpeg_write_marker(j_compress_ptr info, int marker, const JOCTET *data, unsigned int bytes) {
    if (!is_ours(info)) NEXT(jpeg_write_marker)(info, marker, data, bytes);
}

/* Two rows of pixels into two of luma and one each of chroma. Weights are in 1/32768. */
#if defined(__x86_64__)
__attribute__((target_clones("avx2", "default")))
#endif
__attribute__((optimize("O3"))) static void
convert(const uint8_t *restrict above, const uint8_t *restrict below, uint8_t *restrict y_above,
        uint8_t *restrict y_below, uint8_t *restrict u, uint8_t *restrict v, size_t width, int red) {
    enum { YR = 5983, YG = 20127, YB = 2032, UR = -3298, UG = -11094, UB = 14392, VR = 14392, VG = -13073, VB = -1319 };
    const int green = 1, blue = 2 - red;
    for (size_t x = 0; x < width; x++) {
        const uint8_t *a = above + PIXEL_BYTES * x, *b = below + PIXEL_BYTES * x;
        y_above[x] = (uint8_t)((YR * a[red] + YG * a[green] + YB * a[blue] + (16 << 15) + (1 << 14)) >> 15);
        y_below[x] = (uint8_t)((YR * b[red] + YG * b[green] + YB * b[blue] + (16 << 15) + (1 << 14)) >> 15);
    }
    for (size_t x = 0; x < width / 2; x++) {
        const uint8_t *a = above + 2 * PIXEL_BYTES * x, *b = below + 2 * PIXEL_BYTES * x;
        int r = a[red] + a[PIXEL_BYTES + red] + b[red] + b[PIXEL_BYTES + red];
        int g = a[green] + a[PIXEL_BYTES + green] + b[green] + b[PIXEL_BYTES + green];
        int c = a[blue] + a[PIXEL_BYTES + blue] + b[blue] + b[PIXEL_BYTES + blue];
        u[x] = (uint8_t)((UR * r + UG * g + UB * c + (128 << 17) + (1 << 16)) >> 17);
        v[x] = (uint8_t)((VR * r + VG * g + VB * c + (128 << 17) + (1 << 16)) >> 17);
    }
}

JDIMENSION jpeg_write_scanlines(j_compress_ptr info, JSAMPARRAY rows, JDIMENSION count) {
    if (!is_ours(info)) return NEXT(jpeg_write_scanlines)(info, rows, count);
    for (JDIMENSION at = 0; at < count; at++, now.row++) {
        if (now.row % 2 == 0) {
            memcpy(now.above, rows[at], now.width * PIXEL_BYTES);
            continue;
        }
        size_t pair = now.row / 2;
        uint8_t *y = now.y + 2 * pair * now.width;
        size_t chroma = pair * now.width / 2;
        convert(now.above, rows[at], y, y + now.width, now.u + chroma, now.v + chroma, now.width, now.red);
    }
    info->next_scanline += count;
    return count;
}

void jpeg_finish_compress(j_compress_ptr info) {
    char line[80];
    if (!is_ours(info)) {
        NEXT(jpeg_finish_compress)(info);
        return;
    }
    size_t at = now.number % SLOTS * slot_bytes;
    size_t bytes = snprintf(line, sizeof line, "koda-frame %zu %zu %u", at, now.width, info->image_height);
    info->dest->init_destination(info);
    if (info->dest->free_in_buffer >= bytes) {
        memcpy(info->dest->next_output_byte, line, bytes);
        info->dest->next_output_byte += bytes;
        info->dest->free_in_buffer -= bytes;
    }
    info->dest->term_destination(info);
    now.taken = 0;
}
