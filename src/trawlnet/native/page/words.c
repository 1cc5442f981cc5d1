/* The words of an anchor and of what stands beside it. */
#include "words.h"

#include "characters.h"

typedef struct {
    characters text;
    unsigned char *bytes; /* Lexbor's, or NULL */
} piece;

enum { WORDS_MAX = TEXT_MAX + 2 * SIDE_MAX };

typedef struct {
    Py_ssize_t length;
    Py_UCS4 all; /* every character, or-ed */
    int space; /* one is due before the next word */
    Py_UCS4 characters[WORDS_MAX];
} words;

static int take_text(const lexbor *lxb, lxb_node *node, piece *into)
{
    size_t size = 0;
    *into = (piece){.bytes = lxb->text(node, &size)};
    return into->bytes ? characters_of(into->bytes, size, &into->text) : 0;
}

static void let_go(const lexbor *lxb, lxb_document *document, piece *one)
{
    if (one->bytes)
        lxb->text_free(document, one->bytes);
    characters_free(&one->text);
}

/* As many of the words as fit into `most` characters. */
static void add(words *to, const characters *text, Py_ssize_t from, Py_ssize_t end, Py_ssize_t most)
{
    Py_ssize_t length = to->length;
    int space = to->space;
    for (Py_ssize_t i = from; i < end; i++) {
        Py_UCS4 character = character_at(text, i);
        if (is_space(character)) {
            space = length > 0;
            continue;
        }
        if (space && length < most)
            to->characters[length++] = ' ';
        space = 0;
        if (length >= most)
            break;
        to->characters[length++] = character;
        to->all |= character;
    }
    to->length = length;
    to->space = space;
}

static char *put_utf8(char *at, Py_UCS4 c)
{
    if (c < 0x80) {
        *at++ = (char)c;
        return at;
    }
    if (c < 0x800) {
        *at++ = (char)(0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *at++ = (char)(0xe0 | c >> 12);
        } else {
            *at++ = (char)(0xf0 | c >> 18);
            *at++ = (char)(0x80 | (c >> 12 & 0x3f));
        }
        *at++ = (char)(0x80 | (c >> 6 & 0x3f));
    }
    *at++ = (char)(0x80 | (c & 0x3f));
    return at;
}

static PyObject *text_from(const words *found)
{
    char utf8[4 * WORDS_MAX], *end = utf8;
    for (Py_ssize_t i = 0; i < found->length && found->all < 0x80; i++)
        *end++ = (char)found->characters[i];
    for (Py_ssize_t i = 0; i < found->length && found->all >= 0x80; i++)
        end = put_utf8(end, found->characters[i]);
    return PyUnicode_FromStringAndSize(utf8, end - utf8);
}

static Py_ssize_t least(Py_ssize_t one, Py_ssize_t other) { return one < other ? one : other; }

static int beside(const lexbor *lxb, lxb_node *node, piece *into)
{
    *into = (piece){0};
    return node && lxb->type(node) == NODE_TEXT ? take_text(lxb, node, into) : 0;
}

int words_of(const lexbor *lxb, lxb_document *document, lxb_node *anchor, int around, Py_ssize_t *budget,
             PyObject **text, PyObject **context)
{
    piece whole = {0}, before = {0}, after = {0};
    words inner, outer;
    inner.length = inner.all = inner.space = outer.length = outer.all = outer.space = 0;
    *text = *context = NULL;
    if (*budget > 0 && take_text(lxb, anchor, &whole) == 0 &&
        (!around || (beside(lxb, lxb->prev(anchor), &before) == 0 && beside(lxb, lxb->next(anchor), &after) == 0))) {
        const characters *left = &before.text, *right = &after.text;
        *budget -= whole.text.length + left->length + right->length + 1;
        add(&inner, &whole.text, 0, least(whole.text.length, SLACK), TEXT_MAX);
        if (around) {
            const characters middle = {.wide = inner.characters, .length = inner.length};
            add(&outer, left, left->length - least(left->length, SIDE_MAX), left->length, WORDS_MAX);
            add(&outer, &middle, 0, middle.length, WORDS_MAX);
            add(&outer, right, 0, least(right->length, SIDE_MAX), WORDS_MAX);
        }
    }
    let_go(lxb, document, &whole);
    let_go(lxb, document, &before);
    let_go(lxb, document, &after);
    if (PyErr_Occurred())
        return -1;
    *text = text_from(&inner);
    *context = *text ? text_from(&outer) : NULL;
    return *context ? 0 : -1;
}
