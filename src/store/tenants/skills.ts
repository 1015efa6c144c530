import { createHash } from 'node:crypto';
import type { Kysely, Selectable } from 'kysely';
import type { SkillStore, StoredSkill } from '../../tools/skills/skill.ts';
import { recordChanges } from '../audit-log.ts';
import { inVersionedTransaction } from '../changes.ts';
import { SqlRepository, type StoreTransaction } from '../database.ts';
import type { Schema, SkillsTable } from '../schema.ts';

export class SqlSkills extends SqlRepository implements SkillStore {
  async list(tenantId: string): Promise<readonly Omit<StoredSkill, 'instructions'>[]> {
    const rows = await this.database.read
      .selectFrom('skills')
      .select(['tenant_id', 'name', 'description', 'created_at', 'updated_at'])
      .where('tenant_id', '=', tenantId)
      .orderBy('name')
      .execute();
    return rows.map(summaryOf);
  }

  async get(tenantId: string, name: string): Promise<StoredSkill | undefined> {
    const row = await findSkill(this.database.read, tenantId, name);
    return row && skillOf(row);
  }

  put(skill: StoredSkill, countMax: number): Promise<StoredSkill | undefined> {
    return inVersionedTransaction(this.database, skill.tenantId, async (trx) => {
      if (!(await isBelowMax(trx, skill, countMax))) return undefined;
      const { tenantId, name, description, instructions, createdAt, updatedAt } = skill;
      const text = { description, instructions, updated_at: updatedAt };
      const before = await findSkill(trx, tenantId, name);
      const row = await trx
        .insertInto('skills')
        .values({ tenant_id: tenantId, name, created_at: createdAt, ...text })
        .onConflict((conflict) => conflict.columns(['tenant_id', 'name']).doUpdateSet(text))
        .returningAll()
        .executeTakeFirstOrThrow();
      await recordSkill(trx, 'skill.set', before ?? null, row, updatedAt);
      return skillOf(row);
    });
  }

  remove(tenantId: string, name: string): Promise<boolean> {
    return inVersionedTransaction(this.database, tenantId, async (trx) => {
      const row = await trx
        .deleteFrom('skills')
        .where('tenant_id', '=', tenantId)
        .where('name', '=', name)
        .returningAll()
        .executeTakeFirst();
      if (row) await recordSkill(trx, 'skill.delete', row, null, Date.now());
      return row !== undefined;
    });
  }
}

type SkillRow = Selectable<SkillsTable>;

function findSkill(
  db: Kysely<Schema>,
  tenantId: string,
  name: string,
): Promise<SkillRow | undefined> {
  return db
    .selectFrom('skills')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('name', '=', name)
    .executeTakeFirst();
}

async function recordSkill(
  trx: StoreTransaction,
  action: string,
  before: SkillRow | null,
  after: SkillRow | null,
  now: number,
): Promise<void> {
  const { name: target = '', tenant_id: tenantId = null } = after ?? before ?? {};
  const states = { before: before && stateOfSkill(before), after: after && stateOfSkill(after) };
  await recordChanges(trx, [{ action, target, tenantId, ...states }], now);
}

/** Instructions are part of prompts, which are never logged. They can also be long. */
function stateOfSkill({ description, instructions }: SkillRow) {
  const sha256 = createHash('sha256').update(instructions).digest('hex');
  return { description, instructions_sha256: sha256, instructions_length: instructions.length };
}

async function isBelowMax(
  trx: StoreTransaction,
  { tenantId, name }: StoredSkill,
  countMax: number,
): Promise<boolean> {
  // Lock the tenant, so that two concurrent requests can't both add the last allowed skill.
  await trx.selectFrom('tenants').select('id').where('id', '=', tenantId).forUpdate().execute();
  const { others } = await trx
    .selectFrom('skills')
    .select((eb) => eb.fn.countAll<number>().as('others'))
    .where('tenant_id', '=', tenantId)
    .where('name', '!=', name)
    .executeTakeFirstOrThrow();
  return others < countMax;
}

function summaryOf(row: Omit<SkillRow, 'instructions'>) {
  return {
    tenantId: row.tenant_id,
    name: row.name,
    description: row.description,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

function skillOf(row: SkillRow): StoredSkill {
  return { ...summaryOf(row), instructions: row.instructions };
}
