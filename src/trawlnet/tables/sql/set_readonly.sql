-- From here on questions only, about these tables; and no way back in this session.
SET readonly = 1
