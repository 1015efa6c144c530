import { expect, test } from 'bun:test';
import { freeFormInput } from './free-form.ts';

test.each([
  ['{"input":"*** Begin Patch"}', '*** Begin Patch'],
  ['{"input":""}', ''],
  ['{}', ''],
  ['*** Begin Patch', '*** Begin Patch'],
  ['{"patch":"*** Begin Patch"}', '{"patch":"*** Begin Patch"}'],
])('the text in a call with the arguments %j is %j', (json, text) => {
  expect(freeFormInput(json)).toBe(text);
});
