import { describe, expect, test } from 'bun:test';
import { fieldsOf, textOf } from '../../core/json.ts';
import { normalizeToolCalls, ToolCallAssembly } from './tool-calls.ts';

const opening = { index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: '' } };

describe('an empty tool call', () => {
  test.each<[string, object]>([
    ['only its index', { index: 0 }],
    ['only its id', { index: 0, id: 'a' }],
    ['only its type', { index: 0, type: 'function' }],
    ['no function', { index: 0, function: null }],
    ['a string as its function', { index: 0, function: 'f' }],
  ])('is not sent in a stream: %s', (_, later) => {
    const assembly = new ToolCallAssembly();
    assembly.normalize([structuredClone(opening)]);
    expect(assembly.normalize([{ ...later }])).toEqual([]);
    const extraFields = [{ index: 0, function: { arguments: '{"a":1}' } }];
    expect(assembly.normalize(structuredClone(extraFields))).toEqual(extraFields);
  });

  test.each<[string, object]>([
    ['no field', {}],
    ['only its index', { index: 0 }],
    [
      'empty strings',
      { index: 0, id: '', type: 'function', function: { name: '', arguments: '' } },
    ],
    ['nulls', { index: 0, id: null, type: null, function: { name: null, arguments: null } }],
    ['its id', { index: 0, id: 'a', type: 'function', function: { name: '', arguments: '' } }],
  ])('does not open a call: %s', (_, stub) => {
    const assembly = new ToolCallAssembly();
    const sent = [stub, stub].map((one) => assembly.normalize([{ ...structuredClone(one) }]));
    expect(sent).toEqual([[], []]);
    expect([assembly.hasCalls, assembly.complete(false)]).toEqual([false, []]);
    // A later call is sent in full.
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
    const withoutBody = [{ id: 'b', type: 'function' }, { id: 'd', function: 0 }, {}, null];
    const emptyCalls = [...withoutBody, stub, announced];
    expect(normalizeToolCalls([...emptyCalls, call, custom])).toEqual([call, custom]);
  });
});

test('ToolCallAssembly reads a call whose custom field is null as a function call', () => {
  const argumentsOf = (...pieces: string[]) => {
    const assembly = new ToolCallAssembly();
    const deltas = pieces.map((json, index) => ({
      ...(index === 0 ? opening : { index: 0 }),
      function: { ...(index === 0 ? { name: 'f' } : {}), arguments: json },
      custom: null,
    }));
    const sent = [...deltas.map((delta) => assembly.normalize([delta])), assembly.complete(false)];
    return sent
      .flat()
      .map((call) => textOf(fieldsOf(call.function).arguments))
      .join('');
  };
  expect([argumentsOf(''), argumentsOf('null')]).toEqual(['{}', '{}']);
  expect(argumentsOf('{}', '{"a":1}')).toBe('{"a":1}');
});

describe('a name that is the start of a tool name', () => {
  const piece = (name: string, extraFields: object = {}) => ({
    index: 0,
    function: { name, ...extraFields },
  });
  const namesSent = (...pieces: object[]) => {
    const assembly = new ToolCallAssembly(['look', 'look_up', 'find_all']);
    const deltas = pieces.map((one) => assembly.normalize([{ ...structuredClone(one) }]));
    return [...deltas, assembly.complete(false)].map((calls) =>
      calls.map(({ function: body }) => fieldsOf(body).name ?? fieldsOf(body).arguments),
    );
  };

  test('is held until the rest of the name, the arguments, or the end arrives', () => {
    expect(namesSent(piece('fi'), piece('nd_all'))).toEqual([[], ['find_all'], ['{}']]);
    expect(namesSent(piece('fi'), piece('nd_'))).toEqual([[], [], ['find_']]);
    const bare = { function: { name: 'nd_all', arguments: '{"a":1}' } };
    expect(namesSent({ id: 'a', function: { name: 'fi' } }, bare)).toEqual([[], ['find_all'], []]);
    expect(namesSent(piece('fi', { arguments: '{"a":1}' }))).toEqual([['fi'], []]);
    expect(namesSent(piece('fi'), { index: 0, function: { arguments: '{' } })).toEqual([
      [],
      ['fi'],
      ['{'],
    ]);
  });

  test('is sent at once if a tool has that name, and only once if it is repeated', () => {
    expect(namesSent(piece('look'), piece('_up'))).toEqual([['look'], ['_up'], ['{}', '{}']]);
    expect(namesSent(piece('find'), piece('find'))).toEqual([[], [], ['find']]);
  });

  test('is dropped from an answer that was cut off within the name', () => {
    const assembly = new ToolCallAssembly(['find_all']);
    assembly.normalize([piece('find')]);
    expect([assembly.hasCalls, assembly.complete(true)]).toEqual([true, []]);
  });
});
