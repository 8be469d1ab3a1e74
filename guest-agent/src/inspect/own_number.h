/* Why a program has its own number of threads in a section, for people. */
#ifndef VSCAF_OWN_NUMBER_H
#define VSCAF_OWN_NUMBER_H

#include "record.h"

struct own_number {
    char section[96]; /* the name of its outlined function, or its place in its file: "+0x1234" */
    enum vscaf_reason reason;
    char detail[64]; /* what the reason is about; "": nothing */
};

/* The reason of such a word as a sentence for people, whose subject is the section. The word itself, if it is unknown. */
const char *own_number_text(const char *word);

/* The reason as one word, for other programs: "pointer_call". "" for none. */
const char *own_number_word(enum vscaf_reason reason);

#endif
