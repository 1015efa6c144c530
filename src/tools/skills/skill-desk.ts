import { skillsPerTenantMax } from '../../core/bounds.ts';
import { type GatewayError, invalidRequest, notFound } from '../../core/errors.ts';
import { didYouMean } from '../../core/nearest.ts';
import { isSkillName, type Skill, type SkillBook, type StoredSkill, skillsAway } from './skill.ts';
import { readSkill } from './skill-input.ts';

/** A skill as a tenant sees it in a list. */
interface SkillSummary {
  readonly name: string;
  readonly description: string;
  readonly source: 'built_in' | 'customer';
  /** `null` for built-in ones. */
  readonly created_at: string | null;
  readonly updated_at: string | null;
}

interface SkillObject extends SkillSummary {
  readonly instructions: string;
}

interface SkillDeskParts {
  readonly book: SkillBook;
  readonly builtIn: ReadonlyMap<string, Skill>;
  now(): number;
  /** Called after a change, so that this process need not wait for its next look at the store. */
  changed(): void;
}

/** What a tenant does with skills, by HTTP or by the command line. */
export class SkillDesk {
  readonly #parts: SkillDeskParts;

  constructor(parts: SkillDeskParts) {
    this.#parts = parts;
  }

  /** The skills a request of this tenant may name: its own, and built-in ones not replaced. */
  async list(tenantId: string): Promise<readonly SkillSummary[]> {
    const { book, builtIn } = this.#parts;
    const own = (await book.list(tenantId).catch(skillsAway)).map(summaryOfOwn);
    const replaced = new Set(own.map(({ name }) => name));
    const shipped = [...builtIn.values()].filter(({ name }) => !replaced.has(name));
    return [...own, ...shipped.map(summaryOfBuiltIn)].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  async show(tenantId: string, name: string): Promise<SkillObject> {
    const { book, builtIn } = this.#parts;
    // A name that no skill can have is not taken to the store, which may not even hold its bytes.
    if (!isSkillName(name)) throw await this.#unknown(tenantId, name);
    const own = await book.get(tenantId, name).catch(skillsAway);
    if (own) return { ...summaryOfOwn(own), instructions: own.instructions };
    const shipped = builtIn.get(name);
    if (!shipped) throw await this.#unknown(tenantId, name);
    return { ...summaryOfBuiltIn(shipped), instructions: shipped.instructions };
  }

  async put(tenantId: string, name: string, body: unknown): Promise<SkillObject> {
    const { book, now, changed } = this.#parts;
    const skill = readSkill(name, body);
    const at = now();
    const row = { ...skill, tenantId, createdAt: at, updatedAt: at };
    const saved = await book.put(row, skillsPerTenantMax).catch(skillsAway);
    if (!saved) {
      const message = `This tenant already has ${skillsPerTenantMax} skills; delete some first.`;
      throw invalidRequest(message, 'name');
    }
    changed();
    return { ...summaryOfOwn(saved), instructions: saved.instructions };
  }

  async delete(tenantId: string, name: string): Promise<void> {
    const { book, builtIn, changed } = this.#parts;
    if (!isSkillName(name)) throw await this.#unknown(tenantId, name);
    if (await book.remove(tenantId, name).catch(skillsAway)) return changed();
    if (!builtIn.has(name)) throw await this.#unknown(tenantId, name);
    const message = `The skill "${name}" is built in: it can be replaced, but not deleted.`;
    throw invalidRequest(message, 'name');
  }

  async #unknown(tenantId: string, name: string): Promise<GatewayError> {
    const known = await this.list(tenantId);
    const names = known.map((skill) => skill.name);
    const hint = didYouMean(name, names) || '.';
    return notFound(`There is no skill "${name.slice(0, 100)}"${hint}`, 'name');
  }
}

function summaryOfOwn(skill: Omit<StoredSkill, 'instructions'>): SkillSummary {
  return {
    name: skill.name,
    description: skill.description,
    source: 'customer',
    created_at: new Date(skill.createdAt).toISOString(),
    updated_at: new Date(skill.updatedAt).toISOString(),
  };
}

function summaryOfBuiltIn({ name, description }: Skill): SkillSummary {
  return { name, description, source: 'built_in', created_at: null, updated_at: null };
}
