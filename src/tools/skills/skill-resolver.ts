import { ReadCache } from '../../core/bounded-map.ts';
import { cachedSkillsMax, skillsPerRequestMax } from '../../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../../core/errors.ts';
import {
  isSkillName,
  type Skill,
  type SkillStore,
  throwSkillsUnavailable,
  unknownSkillMessage,
} from './skill.ts';

/**
 * Resolves and caches the skills that requests name. `forget()` clears the cache when the
 * directory's version changes, so a change reaches every process within one poll.
 */
export class SkillResolver {
  readonly #store: Pick<SkillStore, 'get' | 'list'>;
  readonly #builtIn: ReadonlyMap<string, Skill>;
  readonly #cached = new ReadCache<Skill | undefined>(cachedSkillsMax);

  constructor(store: Pick<SkillStore, 'get' | 'list'>, builtIn: ReadonlyMap<string, Skill>) {
    this.#store = store;
    this.#builtIn = builtIn;
  }

  /**
   * Returns the tenant's skills with these names, in the order of their first mention. A tenant's
   * skill replaces a built-in one of the same name. Throws 400 for unknown names.
   */
  async resolve(tenantId: string, names: readonly string[]): Promise<readonly Skill[]> {
    if (names.length > skillsPerRequestMax) {
      const limit = `at most ${skillsPerRequestMax} are allowed`;
      throw invalidRequest(`skills has ${names.length} items; ${limit}.`, 'skills');
    }
    const unique = [...new Set(names)];
    const found = await Promise.all(unique.map((name) => this.#find(tenantId, name)));
    const missing = unique.find((_, index) => found[index] === undefined);
    if (missing !== undefined) throw await this.#unknown(tenantId, missing, names.indexOf(missing));
    return found.filter((skill) => skill !== undefined);
  }

  /** Clears the cache. */
  forget(): void {
    this.#cached.clear();
  }

  #find(tenantId: string, name: string): Skill | Promise<Skill | undefined> | undefined {
    if (!isSkillName(name)) return undefined;
    const key = `${tenantId} ${name}`;
    return this.#cached.get(key) ?? this.#cached.set(key, this.#read(tenantId, name));
  }

  async #read(tenantId: string, name: string): Promise<Skill | undefined> {
    const stored = await this.#store.get(tenantId, name).catch(throwSkillsUnavailable);
    if (!stored) return this.#builtIn.get(name);
    return { name, description: stored.description, instructions: stored.instructions };
  }

  async #unknown(tenantId: string, name: string, at: number): Promise<GatewayError> {
    const stored = await this.#store.list(tenantId).catch(throwSkillsUnavailable);
    const names = [...stored.map((skill) => skill.name), ...this.#builtIn.keys()];
    return invalidRequest(unknownSkillMessage(name, names), `skills[${at}]`);
  }
}
