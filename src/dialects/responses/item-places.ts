import { outputItemsMax } from '../../core/bounds.ts';
import { type Fields, isObject, isText } from '../../core/json.ts';

/**
 * Which item of the output an event is about. Its place says so; its id only where the place is
 * left out, because some gateways change the ids from event to event.
 */
export class ItemPlaces {
  readonly #byId = new Map<unknown, number>();
  #last = -1;

  of({ output_index: place, item, item_id: id }: Fields): unknown {
    const isItem = isObject(item);
    if (typeof place === 'number') {
      // Some servers tell words of items that they never announce.
      if (isItem || isText(id)) this.#remember(place, isItem ? item.id : id);
      return place;
    }
    const known = this.#byId.get(isItem ? item.id : id);
    if (known !== undefined) return known;
    if (isItem) this.#remember(this.#last + 1, item.id);
    return Math.max(this.#last, 0);
  }

  /** Of the whole output: events may number places that stay empty, and then it is shorter. */
  ofWhole({ id }: Fields, at: number): number {
    return (isText(id) ? this.#byId.get(id) : undefined) ?? at;
  }

  /** One id for each place is enough. */
  #remember(place: number, id: unknown): void {
    if (place <= this.#last || this.#byId.size >= outputItemsMax) return;
    this.#last = place;
    this.#byId.set(id, place);
  }
}
