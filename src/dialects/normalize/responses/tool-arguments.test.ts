import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { JsonEndScanner } from './tool-arguments.ts';

test('an object is over with its last letter and not before, in whatever pieces it comes', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue()),
      fc.integer({ min: 1, max: 9 }),
      (value, size) => {
        const json = JSON.stringify(value);
        const end = new JsonEndScanner();
        for (let at = 0; at < json.length; at += size) {
          expect(end.isComplete).toBe(false);
          end.push(json.slice(at, at + size));
        }
        expect(end.isComplete).toBe(true);
      },
    ),
  );
});

const parts = ['', '"{}"', 'null', '{"a":"}', '[{}', '{"a":"\\"}'];
const others = ['} else {', 'f({})', ' - [1]'];

test.each([...parts, ...others])('%p is not over', (json) => {
  const end = new JsonEndScanner();
  end.push(json);
  expect(end.isComplete).toBe(false);
});

test('what follows the end does not belong to it', () => {
  const end = new JsonEndScanner();
  expect(end.push('{"a":')).toBe(5);
  expect(end.push('1}}')).toBe(2);
  expect(end.push('{"a":1}')).toBe(0);
  expect(end.isComplete).toBe(true);
});
