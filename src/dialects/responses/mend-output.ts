/**
 * What servers of one's own leave out of an output. Clients read it without asking whether it is
 * there, and strict ones drop what lacks it. Mended in place; each answers whether it had to.
 */
import { type Fields, isObject, isText } from '../../core/json.ts';
import { argumentsOf } from './item-teller.ts';

/** An event, but for the name of its item; `place` is that item's. */
export function mendEvent(type: string, event: Fields, place: unknown): boolean {
  const isPlaced = placeEvent(type, event, place);
  return completeEvent(type, event) || isPlaced;
}

/** A whole item. */
export function mendItem(item: Fields): void {
  nameItem(item);
  completeItem(item);
}

/** llama.cpp knows a call by what its result will name; clients want an id of the item's own. */
export function nameItem(item: unknown): boolean {
  if (!isObject(item) || item.type !== 'function_call' || isText(item.id)) return false;
  if (!isText(item.call_id)) return false;
  // Its earlier versions begin the events' names for it so, and those of the calls too.
  item.id = item.call_id.startsWith('fc_') ? item.call_id : `fc_${item.call_id}`;
  return true;
}

const aboutParts = /^response\.(?:content_part|output_text|refusal|reasoning_text)\./;
const aboutSummaries = /^response\.reasoning_summary_/;

/** Which item and part it tells of. */
function placeEvent(type: string, event: Fields, place: unknown): boolean {
  const { item, item_id: id, delta } = event;
  const isOfItem = isObject(item) || isText(id) || isText(delta);
  let changed = isOfItem && setIndex(event, 'output_index', place);
  if (aboutParts.test(type) && setIndex(event, 'content_index', 0)) changed = true;
  if (aboutSummaries.test(type) && setIndex(event, 'summary_index', 0)) changed = true;
  return changed;
}

function setIndex(event: Fields, name: string, value: unknown): boolean {
  if (typeof event[name] === 'number') return false;
  event[name] = value;
  return true;
}

function completeEvent(type: string, event: Fields): boolean {
  if (type === 'response.function_call_arguments.done') return completeArguments(event);
  if (!isObject(event.item)) return false;
  if (type === 'response.output_item.added') return completeBegun(event.item);
  return type === 'response.output_item.done' && completeItem(event.item);
}

/** OpenAI's SDK adds parts to the content of a message that has begun; Codex wants both lists. */
const listsOfItems: ReadonlyMap<unknown, string> = new Map([
  ['message', 'content'],
  ['reasoning', 'summary'],
]);

function completeBegun(item: Fields): boolean {
  const list = listsOfItems.get(item.type);
  if (list === undefined || Array.isArray(item[list])) return false;
  item[list] = [];
  return true;
}

function completeItem(item: Fields): boolean {
  const isWhole = item.type === 'function_call' && item.status !== 'incomplete';
  return isWhole && completeArguments(item);
}

function completeArguments(holder: Fields): boolean {
  if (isText(holder.arguments)) return false;
  holder.arguments = argumentsOf(holder);
  return true;
}
