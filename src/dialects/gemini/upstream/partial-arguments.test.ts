import { expect, test } from 'bun:test';
import { PartialArguments } from './partial-arguments.ts';

function build(...pieces: readonly unknown[]): string {
  const parts = new PartialArguments();
  parts.add(pieces);
  return parts.toJson();
}

const string = (jsonPath: string, stringValue: string) => ({ jsonPath, stringValue });

test('pieces of every kind find their places', () => {
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

test('no piece at all is no argument', () => {
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
])('a piece that fits nowhere is passed over: %j', (piece) => {
  expect(['{}', '{"list":[]}']).toContain(build(piece));
});

test('a name that objects have by themselves is a name like any other', () => {
  const json = build(string('$.__proto__.polluted', 'yes'), string('$.constructor', 'c'));
  expect(json).toBe('{"__proto__":{"polluted":"yes"},"constructor":"c"}');
  expect('polluted' in {}).toBe(false);
});

test('a value in the way of a path gives place', () => {
  expect(build(string('$.a', 'x'), string('$.a.b', 'y'))).toBe('{"a":{"b":"y"}}');
});
