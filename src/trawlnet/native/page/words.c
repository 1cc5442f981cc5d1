/* The words of an anchor and of what stands beside it. */
#include "words.h"

/* Characters of some text, wherever they are. */
typedef struct {
    int kind;
    const void *data;
    Py_ssize_t length;
    unsigned char *bytes; /* Lexbor's, or NULL */
    PyObject *decoded;    /* or NULL */
} piece;

enum { WORDS_MAX = TEXT_MAX + 2 * SIDE_MAX };

typedef struct {
    Py_ssize_t length;
    Py_UCS4 all; /* every character, or-ed */
    int space;   /* one is due before the next word */
    Py_UCS4 characters[WORDS_MAX];
} words;

static int is_ascii(const unsigned char *bytes, size_t size)
{
    unsigned char all = 0;
    for (size_t i = 0; i < size; i++)
        all |= bytes[i];
    return all < 0x80;
}

static int take_text(const lexbor *lxb, lxb_node *node, piece *into)
{
    size_t size = 0;
    *into = (piece){.kind = PyUnicode_1BYTE_KIND, .bytes = lxb->text(node, &size)};
    if (!into->bytes)
        return 0;
    into->data = into->bytes;
    into->length = (Py_ssize_t)size;
    if (is_ascii(into->bytes, size))
        return 0;
    into->decoded = PyUnicode_DecodeUTF8((const char *)into->bytes, (Py_ssize_t)size, "replace");
    if (!into->decoded)
        return -1;
    into->kind = PyUnicode_KIND(into->decoded);
    into->data = PyUnicode_DATA(into->decoded);
    into->length = PyUnicode_GET_LENGTH(into->decoded);
    return 0;
}

static void let_go(const lexbor *lxb, lxb_document *document, piece *text)
{
    if (text->bytes)
        lxb->text_free(document, text->bytes);
    Py_XDECREF(text->decoded);
}

/* As many of the words as fit into `most` characters. */
static void add(words *to, const piece *text, Py_ssize_t from, Py_ssize_t end, Py_ssize_t most)
{
    for (Py_ssize_t i = from; i < end; i++) {
        Py_UCS4 character = PyUnicode_READ(text->kind, text->data, i);
        if (Py_UNICODE_ISSPACE(character)) {
            to->space = to->length > 0;
            continue;
        }
        if (to->space && to->length < most)
            to->characters[to->length++] = ' ';
        to->space = 0;
        if (to->length >= most)
            return;
        to->characters[to->length++] = character;
        to->all |= character;
    }
}

static PyObject *text_from(const words *found)
{
    if (found->all >= 0x80)
        return PyUnicode_FromKindAndData(PyUnicode_4BYTE_KIND, found->characters, found->length);
    PyObject *text = PyUnicode_New(found->length, 0x7f);
    if (text && found->length) {
        Py_UCS1 *data = PyUnicode_1BYTE_DATA(text);
        for (Py_ssize_t i = 0; i < found->length; i++)
            data[i] = (Py_UCS1)found->characters[i];
    }
    return text;
}

static Py_ssize_t least(Py_ssize_t one, Py_ssize_t other) { return one < other ? one : other; }

static int beside(const lexbor *lxb, lxb_node *node, piece *into)
{
    *into = (piece){.kind = PyUnicode_1BYTE_KIND};
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
        *budget -= whole.length + before.length + after.length + 1;
        add(&inner, &whole, 0, least(whole.length, SLACK), TEXT_MAX);
        if (around) {
            const piece middle = {.kind = PyUnicode_4BYTE_KIND, .data = inner.characters, .length = inner.length};
            add(&outer, &before, before.length - least(before.length, SIDE_MAX), before.length, WORDS_MAX);
            add(&outer, &middle, 0, middle.length, WORDS_MAX);
            add(&outer, &after, 0, least(after.length, SIDE_MAX), WORDS_MAX);
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
