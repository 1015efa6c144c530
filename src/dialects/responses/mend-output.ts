/**
 * Adds what self-hosted servers leave out of an output: clients read such fields without checking,
 * and strict clients drop items without them. Changes in place; a boolean says if any was needed.
 */
import { type Fields, isObject, isText } from '../../core/json.ts';
import { argumentsOf } from './item-teller.ts';

/** Mends an event, but not the id of its item; `place` is the place of that item. */
export function mendEvent(type: string, event: Fields, place: unknown): boolean {
  const isPlaced = placeEvent(type, event, place);
  return completeEvent(type, event) || isPlaced;
}

/** Mends a whole item. */
export function mendItem(item: Fields): void {
  nameItem(item);
  completeItem(item);
}

/** llama.cpp gives a call only a `call_id`; clients want the item to have an `id`, too. */
export function nameItem(item: unknown): boolean {
  if (!isObject(item) || item.type !== 'function_call' || isText(item.id)) return false;
  if (!isText(item.call_id)) return false;
  // In earlier versions of llama.cpp the `item_id` of events and the `call_id` begin with `fc_`.
  item.id = item.call_id.startsWith('fc_') ? item.call_id : `fc_${item.call_id}`;
  return true;
}

const aboutParts = /^response\.(?:content_part|output_text|refusal|reasoning_text)\./;
const aboutSummaries = /^response\.reasoning_summary_/;

/** Sets the indexes of the item and the part that an event is about. */
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

/** Lists to which OpenAI's SDK adds parts, so an item has to begin with them; Codex wants both. */
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
