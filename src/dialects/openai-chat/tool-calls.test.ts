import { describe, expect, test } from 'bun:test';
import { fieldsOf, textOf } from '../../core/json.ts';
import { normalizeToolCalls, ToolCallAssembly } from './tool-calls.ts';

const opening = { index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: '' } };

describe('an empty tool call', () => {
  test.each<[string, object]>([
    ['only its number', { index: 0 }],
    ['only its id', { index: 0, id: 'a' }],
    ['only its type', { index: 0, type: 'function' }],
    ['no function', { index: 0, function: null }],
    ['a word for a function', { index: 0, function: 'f' }],
  ])('is not sent in a stream: %s', (_, later) => {
    const assembly = new ToolCallAssembly();
    assembly.normalize([structuredClone(opening)]);
    expect(assembly.normalize([{ ...later }])).toEqual([]);
    const more = [{ index: 0, function: { arguments: '{"a":1}' } }];
    expect(assembly.normalize(structuredClone(more))).toEqual(more);
  });

  test.each<[string, object]>([
    ['no field', {}],
    ['only its number', { index: 0 }],
    ['empty texts', { index: 0, id: '', type: 'function', function: { name: '', arguments: '' } }],
    ['nulls', { index: 0, id: null, type: null, function: { name: null, arguments: null } }],
    ['its id', { index: 0, id: 'a', type: 'function', function: { name: '', arguments: '' } }],
  ])('opens no call: %s', (_, stub) => {
    const assembly = new ToolCallAssembly();
    const told = [stub, stub].map((one) => assembly.normalize([{ ...structuredClone(one) }]));
    expect(told).toEqual([[], []]);
    expect([assembly.hasCalls, assembly.complete(false)]).toEqual([false, []]);
    // A call that comes later is told in full.
    expect(assembly.normalize([structuredClone(opening)])).toEqual([opening]);
  });

  test.each(['', '{', '{ }', '{"a":'])(
    'is dropped from an answer that was cut off at %j',
    (json) => {
      const assembly = new ToolCallAssembly();
      assembly.normalize([{ index: 0, id: 'a', function: { name: '', arguments: json } }]);
      expect(assembly.complete(true)).toEqual([]);
    },
  );

  test('leaves the other calls of its delta unchanged', () => {
    const assembly = new ToolCallAssembly();
    assembly.normalize([structuredClone(opening)]);
    const other = { ...structuredClone(opening), index: 1, id: 'b' };
    expect(assembly.normalize([{ index: 0 }, other])).toEqual([{ ...opening, index: 1, id: 'b' }]);
  });

  test('is dropped from a complete message', () => {
    const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } };
    const custom = { id: 'c', type: 'custom', custom: { name: 'p', input: 'x' } };
    const stub = { id: '', type: 'function', function: { name: '', arguments: '' } };
    const announced = { ...stub, id: 'e' };
    const nothing = [{ id: 'b', type: 'function' }, { id: 'd', function: 0 }, {}, null];
    const silent = [...nothing, stub, announced];
    expect(normalizeToolCalls([...silent, call, custom])).toEqual([call, custom]);
  });
});

test('a call is read as a function when the server sends null for its custom field', () => {
  const said = (...pieces: string[]) => {
    const assembly = new ToolCallAssembly();
    const deltas = pieces.map((json, at) => ({
      ...(at === 0 ? opening : { index: 0 }),
      function: { ...(at === 0 ? { name: 'f' } : {}), arguments: json },
      custom: null,
    }));
    const told = [...deltas.map((delta) => assembly.normalize([delta])), assembly.complete(false)];
    return told
      .flat()
      .map((call) => textOf(fieldsOf(call.function).arguments))
      .join('');
  };
  expect([said(''), said('null')]).toEqual(['{}', '{}']);
  expect(said('{}', '{"a":1}')).toBe('{"a":1}');
});

describe('a name that is the start of a tool name', () => {
  const piece = (name: string, more: object = {}) => ({ index: 0, function: { name, ...more } });
  const told = (...pieces: object[]) => {
    const assembly = new ToolCallAssembly(['look', 'look_up', 'find_all']);
    const deltas = pieces.map((one) => assembly.normalize([{ ...structuredClone(one) }]));
    return [...deltas, assembly.complete(false)].map((calls) =>
      calls.map(({ function: body }) => fieldsOf(body).name ?? fieldsOf(body).arguments),
    );
  };

  test('is held until its rest, its arguments or the end comes', () => {
    expect(told(piece('fi'), piece('nd_all'))).toEqual([[], ['find_all'], ['{}']]);
    expect(told(piece('fi'), piece('nd_'))).toEqual([[], [], ['find_']]);
    const bare = { function: { name: 'nd_all', arguments: '{"a":1}' } };
    expect(told({ id: 'a', function: { name: 'fi' } }, bare)).toEqual([[], ['find_all'], []]);
    expect(told(piece('fi', { arguments: '{"a":1}' }))).toEqual([['fi'], []]);
    expect(told(piece('fi'), { index: 0, function: { arguments: '{' } })).toEqual([
      [],
      ['fi'],
      ['{'],
    ]);
  });

  test('is sent at once if a tool has that name, and only once if it is repeated', () => {
    expect(told(piece('look'), piece('_up'))).toEqual([['look'], ['_up'], ['{}', '{}']]);
    expect(told(piece('find'), piece('find'))).toEqual([[], [], ['find']]);
  });

  test('is dropped from an answer that was cut off there', () => {
    const assembly = new ToolCallAssembly(['find_all']);
    assembly.normalize([piece('find')]);
    expect([assembly.hasCalls, assembly.complete(true)]).toEqual([true, []]);
  });
});
