/**
 * A search for tools that the client does itself. Codex does not send the tools of its MCP servers
 * until the model searches for them, and then sends those that it found.
 */
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { fieldsOf, isText } from '../../core/json.ts';
import { optional } from '../../core/schema-builders.ts';
import { parseArguments } from '../answer/exact-json.ts';
import { SchemasByType } from '../ask/schemas-by-type.ts';
import { anyTyped } from './request-schema.ts';

/** The name of the search as a function of the model. */
export const toolSearchName = 'tool_search';

/** Searches that OpenAI does have another `execution`; no other upstream can do those. */
const byClient = { execution: Type.Literal('client') };
const answered = { ...byClient, call_id: Type.String({ minLength: 1 }) };

export const isToolSearch = Compile(
  Type.Object({
    type: Type.Literal('tool_search'),
    ...byClient,
    description: optional(Type.String()),
    parameters: optional(Type.Object({})),
  }),
);
const searchCall = Type.Object({
  type: Type.Literal('tool_search_call'),
  ...answered,
  arguments: Type.Optional(Type.Unknown()),
});
const searchOutput = Type.Object({
  type: Type.Literal('tool_search_output'),
  ...answered,
  tools: Type.Array(anyTyped, { maxItems: 1024 }),
});
export const isSearchCall = Compile(searchCall);
export const isSearchOutput = Compile(searchOutput);
const items = new SchemasByType({ tool_search_call: searchCall, tool_search_output: searchOutput });

/** Checks a search, since leaving out a bad call or result would leave the other one alone. */
export function checkSearch(item: Static<typeof anyTyped>, place: string): void {
  if ('execution' in item && item.execution === 'client') items.check(item.type ?? '', item, place);
}

/** Arguments that are not an object become an empty one. */
export function searchArguments(json: string): object {
  return fieldsOf(parseArguments(json));
}

/** The result for the model: only names, as it finds the tools themselves among its tools. */
export function foundNames(tools: readonly object[]): string {
  const names = tools.map((tool) => fieldsOf(tool).name).filter(isText);
  return names.length > 0 ? `Found: ${names.join(', ')}` : 'Nothing was found.';
}
