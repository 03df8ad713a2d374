#!/usr/bin/env python3
"""Writes graphql_corpus.js: mutated documents and what a second parser, graphql-core 3.2, makes of them. Run it by
hand, in a virtual environment that has graphql-core, when seeds or mutations change; the tests read its output alone.

usage: graphql_corpus.py [COUNT [SEED]] > graphql_corpus.js
"""

import json
import random
import re
import sys

from graphql import GraphQLError, Visitor, parse, visit
from graphql.language import FragmentDefinitionNode, OperationDefinitionNode

SEEDS = [
    '{ viewer { login } }',
    'query Q($owner: String!, $n: Int = 10, $l: [ID!]! = ["a", "b"]) '
    '{ repository(owner: $owner, name: "x") { issues(first: $n) { nodes { title } } } rateLimit { cost } }',
    'mutation M($input: AddStarInput!) @trace(level: "full") '
    '{ star: addStar(input: $input) { clientMutationId } __typename }',
    'subscription { changed(filter: {kind: ISSUE, labels: ["a", "b"], deep: {n: -1.5e-3, b: true, z: null}}) { id } }',
    'query A { a ...F } query B { b ... on Query { c ...G } } '
    'fragment F on Query { d ...G } fragment G on Query { e: f @skip(if: $x) }',
    '# first { x }\n{ a(s: "quote \\" } b", t: "\\u00e9\\n") # } mutation { c\n, d }',
    'query { a(s: """block " "" \\""" } b {\n  # no comment\n""") { b } ... @include(if: true) { c } }',
    '{ on: type fragment query(mutation: subscription) { true false null } } fragment null on on { x }',
]
PIECES = [
    '{', '}', '(', ')', '[', ']', ':', '!', '=', '@', '$', '|', '&', '...', ',', '#', '"', '"""', '\\', '\n', '\r', '\t',
    ' ', 'a', 'on', 'query', 'mutation', 'fragment', 'F', 'G', '-', '0', '1', '.5', 'e3', 'null', '$x', '{ a }', '...F',
    '... on', '\ufeff', '\u00e9', '\U0001f600', '\u2028', '\u00a0', '\f', '\0', '\\u0041', '\\ud800', '\\u{41}', '\\"',
]
# Tokens of the seeds change places too.
TOKEN = re.compile(r'"""(?:[^\\]|\\.)*?"""|"(?:[^"\\]|\\.)*"|#[^\n]*|\.\.\.|\w+|\s+|.', re.S)


def mutate(rng, document):
    for _ in range(rng.choice([0, 1, 1, 1, 1, 1, 2, 3])):
        tokens = TOKEN.findall(document)
        kind = rng.randrange(6)
        at = rng.randrange(len(tokens) + 1)
        if kind == 0:
            tokens.insert(at, rng.choice(PIECES))
        elif kind == 1:
            del tokens[at:at + rng.choice([1, 1, 2, 5])]
        elif kind == 2:
            other = TOKEN.findall(rng.choice(SEEDS))
            start = rng.randrange(len(other))
            tokens[at:at] = other[start:start + rng.choice([1, 3, 8])]
        elif kind == 3 and tokens:
            other = rng.randrange(len(tokens))
            tokens[other], tokens[at - 1] = tokens[at - 1], tokens[other]
        elif kind == 4:
            text = ''.join(tokens)
            cut = rng.randrange(len(text) + 1)
            tokens = [text[:cut], rng.choice(PIECES), text[cut + rng.randrange(2):]]
        else:
            tokens = TOKEN.findall(''.join(tokens) + ' ' + rng.choice(SEEDS))
        document = ''.join(tokens)
    return document


class Duplicates(Visitor):
    """Names that one place holds twice and the like, and spreads."""

    def __init__(self):
        super().__init__()
        self.found = False
        self.spreads = {}
        self.owner = None

    def enter(self, node, *_):
        # Descriptions in executable documents are newer than October 2021.
        self.found |= bool(getattr(node, 'description', None))
        for field in ['arguments', 'fields', 'variable_definitions']:
            nodes = getattr(node, field, None) or []
            names = [(one.variable if field == 'variable_definitions' else one).name.value for one in nodes]
            self.found |= len(names) != len(set(names))
        if isinstance(node, (OperationDefinitionNode, FragmentDefinitionNode)):
            self.owner = id(node)
            self.spreads[self.owner] = []
        if node.kind == 'fragment_spread':
            self.spreads[self.owner].append(node.name.value)


def outcome(document, wanted):
    """`TYPE FIELDS`, or '' where it must be refused: what graphql-core refuses, and what the specification's own
    validation does (names twice, spreads of nothing and of themselves), and newer or odder than October 2021."""
    if re.search('[\x00-\x08\x0b\x0c\x0e-\x1f]', document):
        return ''
    try:
        tree = parse(document, no_location=True)
    except GraphQLError:
        return ''
    if not all(isinstance(one, (OperationDefinitionNode, FragmentDefinitionNode)) for one in tree.definitions):
        return ''
    operations = [one for one in tree.definitions if isinstance(one, OperationDefinitionNode)]
    fragments = [one for one in tree.definitions if isinstance(one, FragmentDefinitionNode)]
    by_name = {one.name.value: one for one in fragments}
    seen = Duplicates()
    visit(tree, seen)
    names = [one.name and one.name.value for one in operations]
    twice = seen.found or len(by_name) != len(fragments) or len(set(names)) != len(names)
    if twice or (None in names and len(names) > 1):
        return ''

    def cyclic(node, path):
        return any(name not in by_name or name in path or cyclic(by_name[name], path | {name})
                   for name in seen.spreads[id(node)])

    if any(cyclic(one, {one.name.value} if one in fragments else set()) for one in tree.definitions):
        return ''
    chosen = [one for one in operations if wanted is None or (one.name and one.name.value == wanted)]
    if len(chosen) != 1 or (wanted is None and len(operations) != 1):
        return ''
    fields = set()

    def collect(selection_set):
        for one in selection_set.selections:
            if one.kind == 'field':
                fields.add(one.name.value)
            elif one.kind == 'fragment_spread':
                collect(by_name[one.name.value].selection_set)
            else:
                collect(one.selection_set)

    collect(chosen[0].selection_set)
    return f'{chosen[0].operation.value} {" ".join(sorted(fields))}'


def strict(document):
    """What graphql-core takes and October 2021 does not, or the router refuses by choice."""
    inner = document[1:] if document.startswith('\ufeff') else document
    stripped = ''.join(t for t in TOKEN.findall(inner) if t[0] not in '"#')
    return '\\u{' in document or any(ord(c) > 127 for c in stripped)


def main():
    count, seed = (int(one) for one in (sys.argv[1:] + ['700', '1'][len(sys.argv) - 1:]))
    rng = random.Random(seed)
    cases = {}
    while len(cases) < count:
        document = mutate(rng, rng.choice(SEEDS))
        names = re.findall(r'(?:query|mutation|subscription) (\w+)', document)
        wanted = rng.choice((names * 2 + ['A']) if len(names) > 1 else (names + [None] * 4 + ['A']))
        if len(document) < 600 and not strict(document) and (document, wanted) not in cases:
            cases[document, wanted] = outcome(document, wanted)
    print('// Written by graphql_corpus.py: [document, operationName, what it comes to, or nothing where it is refused].')
    print('export default [')
    for (document, wanted), result in sorted(cases.items(), key=str):
        print(f'{json.dumps([document, wanted, result])},')
    print('];')


if __name__ == '__main__':
    main()
