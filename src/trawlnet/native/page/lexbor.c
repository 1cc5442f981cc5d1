/* Finds Lexbor's functions in a library that is loaded already. */
#include "lexbor.h"

#include "symbols.h"

const char *lexbor_load(lexbor *into, const char *library)
{
    static const symbol wanted[] = {
        {offsetof(lexbor, document_create), "lxb_html_document_create"},
        {offsetof(lexbor, document_destroy), "lxb_html_document_destroy"},
        {offsetof(lexbor, document_clean), "lxb_html_document_clean"},
        {offsetof(lexbor, document_options), "lxb_html_document_dom_opt_set_noi"},
        {offsetof(lexbor, document_parse), "lxb_html_document_parse"},
        {offsetof(lexbor, text_free), "lxb_dom_document_destroy_text_noi"},
        {offsetof(lexbor, tag_by_name), "lxb_tag_id_by_name_noi"},
        {offsetof(lexbor, first_child), "lxb_dom_node_first_child_noi"},
        {offsetof(lexbor, next), "lxb_dom_node_next_noi"},
        {offsetof(lexbor, prev), "lxb_dom_node_prev_noi"},
        {offsetof(lexbor, parent), "lxb_dom_node_parent_noi"},
        {offsetof(lexbor, tag), "lxb_dom_node_tag_id_noi"},
        {offsetof(lexbor, type), "lxb_dom_node_type_noi"},
        {offsetof(lexbor, text), "lxb_dom_node_text_content"},
        {offsetof(lexbor, first_attribute), "lxb_dom_element_first_attribute_noi"},
        {offsetof(lexbor, next_attribute), "lxb_dom_element_next_attribute_noi"},
        {offsetof(lexbor, attribute_name), "lxb_dom_attr_qualified_name"},
        {offsetof(lexbor, attribute_value), "lxb_dom_attr_value_noi"},
    };
    return symbols_find(into, library, wanted, sizeof wanted / sizeof *wanted);
}
