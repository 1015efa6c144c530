import { expect, test } from 'bun:test';
import { PartialArguments } from './partial-arguments.ts';

function build(...pieces: readonly unknown[]): string {
  const parts = new PartialArguments();
  parts.add(pieces);
  return parts.toJson();
}

const string = (jsonPath: string, stringValue: string) => ({ jsonPath, stringValue });

test('PartialArguments joins pieces of every type', () => {
  const json = build(
    string('$.name', 'An'),
    string('$.name', 'n'),
    { jsonPath: '$.age', numberValue: 0.5 },
    { jsonPath: '$.isNew', boolValue: false },
    { jsonPath: '$.none', nullValue: null },
    string('$.items[0].id', 'a'),
    string('$.items[1].id', 'b'),
    string('$.deep.list[0][0]', 'c'),
    string("$['odd key'].x", 'd'),
    string('$["a\\"b"]', 'e'),
  );
  expect(JSON.parse(json)).toEqual({
    name: 'Ann',
    age: 0.5,
    isNew: false,
    none: null,
    items: [{ id: 'a' }, { id: 'b' }],
    deep: { list: [['c']] },
    'odd key': { x: 'd' },
    'a"b': 'e',
  });
});

test('PartialArguments without pieces is an empty object', () => {
  expect(build()).toBe('{}');
  const parts = new PartialArguments();
  parts.add('none');
  parts.add(undefined);
  expect(parts.toJson()).toBe('{}');
});

test.each([
  [string('name', 'a')],
  [string('$', 'a')],
  [string('$..a', 'a')],
  [string('$.a[', 'a')],
  [string('$[*]', 'a')],
  [string(`$${'.a'.repeat(129)}`, 'a')],
  [string('$.list[5]', 'a')],
  [string('$.list[4294967295].x', 'a')],
  [{ jsonPath: '$.a' }],
  [{ stringValue: 'a' }],
  [null],
])('PartialArguments ignores the invalid piece %j', (piece) => {
  expect(['{}', '{"list":[]}']).toContain(build(piece));
});

test('PartialArguments accepts __proto__ and constructor as names', () => {
  const json = build(string('$.__proto__.polluted', 'yes'), string('$.constructor', 'c'));
  expect(json).toBe('{"__proto__":{"polluted":"yes"},"constructor":"c"}');
  expect('polluted' in {}).toBe(false);
});

test('PartialArguments replaces a value that blocks a path', () => {
  expect(build(string('$.a', 'x'), string('$.a.b', 'y'))).toBe('{"a":{"b":"y"}}');
});
